-- The statements that Python runs, each under its name. `:parameters` are bound by the caller.

-- name: any_vector
select exists (select 1 from document_embedding where model = (select value from setting where name = 'model'))
  or exists (select 1 from question_embedding where model = (select value from setting where name = 'model'));

-- name: vec0_tables_exist
-- Each with its five parts: vec0 does not look whether they are there before it reads them.
select count(*) = 12 from sqlite_schema
where name in ('document_vec', 'hype_vec') or name in (
  select t.value || '_vec_' || p.value
  from json_each('["document","hype"]') t, json_each('["info","chunks","rowids","vector_chunks00","auxiliary"]') p);

-- name: vector_queue_all
insert into vector_queue (kind, id)
select 'document', id from document_embedding where true
union all
select distinct 'hype', question_id from question_embedding where true
on conflict do nothing;

-- name: vector_queue
select kind, id from vector_queue;

-- name: vector_queue_count
select count(*) from vector_queue;

-- name: vector_queue_done
delete from vector_queue where kind = :kind and id = :id;

-- name: document_vec_delete
delete from document_vec where id = :id;

-- name: document_vec_insert
insert into document_vec (id, embedding, content_hash)
select id, vec_quantize_binary(embedding), content_hash from document_embedding
where id = :id and model = (select value from setting where name = 'model');

-- name: hype_vec_delete
delete from hype_vec where id = :id;

-- name: hype_vec_insert
insert into hype_vec (id, embedding, content_hash)
select q.id, vec_quantize_binary(e.embedding), q.content_hash
from question_embedding e
join question q on q.id = e.question_id
where e.question_id = :id and e.model = (select value from setting where name = 'model');

-- name: document
select d.id, d.path, d.title, d.tags, d.description, d.body, d.topic, d.type, d.created, d.updated, d.content_hash,
  d.frontmatter,
  not exists (
    select 1 from document_embedding e
    where e.document_id = d.id and e.content_hash = d.content_hash
      and e.model = (select value from setting where name = 'model')) as pending
from document d
where d.path = :path;

-- name: document_text
select id, path, title, tags, description, body from document where id = :id;

-- name: document_list
select path, title, tags, topic, type, created, updated, characters, passages, questions, passages = 0 as pending
from v_document d
where (:topic is null or substr(d.path, 1, length(:topic) + 1) = :topic || '/')
  and (:type is null or d.type = :type)
  and (:tag is null or exists (select 1 from json_each(d.tags) where value = :tag collate nocase))
order by d.path;

-- name: topics
select topic, sum(documents) from v_topic group by topic order by topic;

-- name: document_insert
insert into document (path, title, tags, description, created, updated, content_hash, frontmatter, body)
values (:path, :title, :tags, :description, :created, :updated, :content_hash, :frontmatter, :body)
returning id;

-- name: document_update
update document
set title = :title, tags = :tags, description = :description, created = :created, updated = :updated,
  content_hash = :content_hash, frontmatter = :frontmatter, body = :body
where id = :id;

-- name: document_move
update document set path = :new, title = :title where path = :old;

-- name: document_delete
delete from document where path = :path;

-- name: document_hash
update document set content_hash = :content_hash
where id = :id and content_hash is not :content_hash;

-- name: pending_documents
select d.id from document d
left join failure f on f.document_id = d.id and f.stage = 'embed'
where not exists (
  select 1 from document_embedding e
  where e.document_id = d.id and e.content_hash = d.content_hash and e.model = :model)
order by coalesce(f.tries, 0), d.updated desc, d.id;

-- name: pending_questions
select q.id, q.document_id, q.text, d.path from question q
join document d on d.id = q.document_id
where not q.vetoed
  and (:document_id is null or q.document_id = :document_id)
  and (q.content_hash is null or q.content_hash = d.content_hash)
  and not exists (select 1 from question_embedding e where e.question_id = q.id and e.model = :model)
  and (not :due or not exists (
    select 1 from failure f
    where f.document_id = d.id and f.stage = 'embed'
      and julianday(f.failed) + pow(2, min(f.tries, 14)) / 1440 > julianday('now')))
order by q.id;

-- name: due_documents
select p.document_id from v_pending p
where p.what = 'document' and p.document_id <> :id
  and (p.tries = 0 or julianday(p.failed) + pow(2, min(p.tries, 14)) / 1440 < julianday('now'))
order by p.tries, p.updated desc, p.document_id
limit :limit;

-- name: embedding_with_hash
-- Its own first: another process may just have made them.
select document_id from document_embedding where content_hash = :content_hash and model = :model
order by document_id = :id desc limit 1;

-- name: embedding_copy
insert into document_embedding (document_id, seq, body_start, body_end, embedding, content_hash, model, crc)
select :id, seq, body_start, body_end, embedding, content_hash, model, crc
from document_embedding where document_id = :source and content_hash = :content_hash and model = :model;

-- name: embedding_clear
delete from document_embedding
where document_id = :id and model = :model and content_hash = :content_hash;

-- name: embedding_clear_stale_of
delete from document_embedding
where document_id = :id
  and content_hash <> (select content_hash from document where id = :id)
  and exists (
    select 1 from document d
    join document_embedding e on e.document_id = d.id and e.content_hash = d.content_hash
    where d.id = :id and e.model = document_embedding.model);

-- name: embedding_clear_stale
delete from document_embedding
where content_hash <> (select d.content_hash from document d where d.id = document_id)
  and exists (
    select 1 from document d
    join document_embedding e on e.document_id = d.id and e.content_hash = d.content_hash
    where d.id = document_embedding.document_id and e.model = document_embedding.model);

-- name: embedding_insert
insert into document_embedding (document_id, seq, body_start, body_end, embedding, content_hash, model, crc)
values (:id, :seq, :body_start, :body_end, :embedding, :content_hash, :model, :crc);

-- name: question_embedding_insert
insert into question_embedding (question_id, embedding, model, crc)
select id, :embedding, :model, :crc from question where id = :id and text = :text
on conflict do nothing;

-- name: failure_insert
insert into failure (document_id, stage, error) select id, :stage, :error from document where id = :id
on conflict (document_id, stage) do update
set error = excluded.error, tries = tries + 1, failed = excluded.failed;

-- name: failure_settled
delete from failure
where stage = 'embed'
  and document_id not in (select document_id from v_pending where what in ('document', 'question'));

-- name: failure
select error from failure where document_id = :id and stage = :stage;

-- name: last_failure
select error from failure where stage = :stage order by failed desc, document_id desc limit 1;

-- name: failure_delete
delete from failure where document_id = :id and stage = :stage;

-- name: setting
select value from setting where name = :name;

-- name: setting_default
update setting set value = :value where name = :name and value is null;

-- name: setting_update
insert into setting (name, value) values (:name, :value)
on conflict (name) do update set value = excluded.value;

-- name: unquestioned
select d.id from document d
left join questioned a on a.document_id = d.id and a.content_hash = d.content_hash
left join failure f on f.document_id = d.id and f.stage = 'hype'
where (a.document_id is null or a.model <> :model)
  and (not :due or f.tries is null
    or julianday(f.failed) + pow(2, min(f.tries, 14)) / 1440 < julianday('now'))
order by coalesce(f.tries, 0), d.updated desc, d.id;

-- name: questioned
select content_hash from questioned where document_id = :id;

-- name: questioned_with_hash
select document_id from questioned where content_hash = :content_hash limit 1;

-- name: questioned_update
insert into questioned (document_id, content_hash, model) values (:id, :content_hash, :model)
on conflict (document_id) do update
set content_hash = excluded.content_hash, model = excluded.model, asked = excluded.asked;

-- name: questioned_copy
insert into questioned (document_id, content_hash, model, asked)
select :id, content_hash, model, asked from questioned where document_id = :source
on conflict (document_id) do update
set content_hash = excluded.content_hash, model = excluded.model, asked = excluded.asked;

-- name: question
select 1 from question where id = :id;

-- name: question_list
select id, path, text, origin, state, model from v_question where :path is null or path = :path;

-- name: question_texts_kept
select text from question where document_id = :id and (origin = 'user' or vetoed);

-- name: question_insert
insert into question (document_id, text, origin, content_hash, model)
select :id, :text, :origin, :content_hash, :model
where not exists (select 1 from question where document_id = :id and text = :text)
returning id;

-- name: question_copy
insert into question (document_id, text, origin, content_hash, model)
select :id, text, origin, content_hash, model from question s
where document_id = :source and origin = 'llm' and not vetoed and content_hash = :content_hash
  and not exists (select 1 from question where document_id = :id and text = s.text);

-- name: question_embedding_copy
insert into question_embedding (question_id, embedding, model, crc)
select q.id, e.embedding, e.model, e.crc from question q
join question s on s.document_id = :source and s.text = q.text
join question_embedding e on e.question_id = s.id
where q.document_id = :id
on conflict do nothing;

-- name: question_clear
delete from question where document_id = :id and origin = 'llm' and not vetoed;

-- name: question_delete
delete from question where id = :id;

-- name: question_veto
update question set vetoed = :vetoed where id = :id;

-- name: document_id
select id from document where path = :path;

-- name: embedding_drop_others
delete from document_embedding where model <> :model;

-- name: question_embedding_drop_others
delete from question_embedding where model <> :model;

-- name: status
select
  (select count(*) from document) as documents,
  (select count(*) from document where type = 'skill') as skills,
  (select count(*) from document where type = 'journal') as journals,
  (select count(distinct document_id) from v_pending where what <> 'hype') as pending,
  (select count(*) from v_pending where what = 'hype') as unquestioned,
  (select count(*) from failure) as failed,
  (select error from failure order by failed desc limit 1) as last_error,
  (select count(*) from document_embedding where model = (select value from setting where name = 'model')) as passages,
  (select count(*) from question where not vetoed) as questions,
  (select count(*) from document_version) as versions;

-- name: pending_of
select what from v_pending where document_id = :id;

-- name: pending_count
select count(distinct document_id) from v_pending where what <> 'hype';

-- name: hype_pending_count
select count(*) from v_pending where what = 'hype';

-- name: document_count
select count(*) from document;

-- name: sources
select s.file, s.size, s.mtime_ns, s.hash, d.path, s.changed from source_file s
left join document d on d.id = s.document_id
where s.root = :root;

-- name: source_roots
select distinct root from source_file order by root;

-- name: source_update
insert into source_file (root, file, document_id, size, mtime_ns, hash)
select :root, :file, id, :size, :mtime_ns, :hash from document where path = :path
on conflict (root, file) do update
set document_id = excluded.document_id, size = excluded.size, mtime_ns = excluded.mtime_ns, hash = excluded.hash,
  changed = null;

-- name: source_seen
update source_file set size = :size, mtime_ns = :mtime_ns, hash = :hash where root = :root and file = :file;

-- name: source_written
update source_file set size = :size, mtime_ns = :mtime_ns, hash = :hash, changed = nullif(changed, :changed)
where root = :root and file = :file;

-- name: source_renamed
update source_file set file = :new where root = :root and file = :file;

-- name: source_reserve
insert into source_file (root, file, document_id, size, mtime_ns, hash, changed)
select :root, :file, id, 0, 0, '', strftime('%Y-%m-%dT%H:%M:%fZ', 'now') from document where path = :path
on conflict do nothing;

-- name: source_less
select path from document where id not in (select document_id from source_file where document_id is not null)
order by path;

-- name: source_delete
delete from source_file where root = :root and file = :file;

-- name: source_forget
delete from source_file where root = :root;

-- name: source_of
select s.root, s.file from source_file s join document d on d.id = s.document_id where d.path = :path;

-- name: held_out
select q.id, q.text, v.path, e.embedding from v_question v
join question q on q.id = v.id
join question_embedding e on e.question_id = q.id and e.model = (select value from setting where name = 'model')
where v.state = 'searched'
order by q.id;

-- name: stand_in_question
create temp table held_out (id integer);
create temp view question as select * from main.question where id not in (select id from temp.held_out);

-- name: stand_in_question_drop
drop view temp.question;
drop table temp.held_out;

-- name: hold_out
delete from temp.held_out;
insert into temp.held_out (id) values (:id);

-- name: retriever_weights
select name, weight from main.retriever;

-- name: retriever_weight_update
update retriever set weight = :weight where name = :name;

-- name: stand_in_ranking
create temp table ranking as select type, 1.0 as weight, null as half_life_days, 0.0 as floor from main.ranking;

-- name: stand_in_ranking_drop
drop table temp.ranking;

-- name: stand_in_retriever
create temp table retriever as
select name, coalesce(:weights ->> name, weight) as weight, power, entry, depth from main.retriever;

-- name: stand_in_retriever_drop
drop table temp.retriever;

-- name: words_merge
insert into document_fts (document_fts) values ('optimize');
insert into question_fts (question_fts) values ('optimize');

-- Checks -----------------------------------------------------------------------------------------------------------

-- name: check_pages
pragma integrity_check;

-- name: check_words
insert into document_fts (document_fts, rank) values ('integrity-check', 1);

-- name: check_question_words
insert into question_fts (question_fts) values ('integrity-check');

-- name: question_words
insert into question_segmenting (id, text)
select id, text from question where id not in (select rowid from question_fts);

-- name: structure
select type, name, sql from sqlite_schema
where name not like 'sqlite_%' and name not like 'document_vec%' and name not like 'hype_vec%'
  and name not like 'document_fts_%' and name not like 'question_fts_%';

-- name: check_document_vec_parts
-- Before vec0 reads them: it trusts the sizes and places in its own tables, and would read past their ends.
select 'chunk ' || c.chunk_id, 'it is not as vec0 expects' from document_vec_chunks c
left join document_vec_vector_chunks00 v on v.rowid = c.chunk_id
where c.size <> 128 or typeof(c.validity) || typeof(c.rowids) || typeof(v.vectors) <> 'blobblobblob'
  or length(c.validity) <> 16 or length(c.rowids) <> 1024 or length(v.vectors) <> 12288
union all
select r.rowid, 'vec0 has no place for it' from document_vec_rowids r
where r.chunk_id not in (select chunk_id from document_vec_chunks) or r.chunk_offset not between 0 and 127
  or r.chunk_id is null or r.chunk_offset is null or r.rowid not in (select rowid from document_vec_auxiliary);

-- name: check_hype_vec_parts
-- Before vec0 reads them: it trusts the sizes and places in its own tables, and would read past their ends.
select 'chunk ' || c.chunk_id, 'it is not as vec0 expects' from hype_vec_chunks c
left join hype_vec_vector_chunks00 v on v.rowid = c.chunk_id
where c.size <> 128 or typeof(c.validity) || typeof(c.rowids) || typeof(v.vectors) <> 'blobblobblob'
  or length(c.validity) <> 16 or length(c.rowids) <> 1024 or length(v.vectors) <> 12288
union all
select r.rowid, 'vec0 has no place for it' from hype_vec_rowids r
where r.chunk_id not in (select chunk_id from hype_vec_chunks) or r.chunk_offset not between 0 and 127
  or r.chunk_id is null or r.chunk_offset is null or r.rowid not in (select rowid from hype_vec_auxiliary);

-- name: check_document_vec
select e.id, 'it is missing, or not that of the vector' from document_embedding e
left join document_vec v on v.id = e.id
where e.model = (select value from setting where name = 'model')
  and e.id not in (select id from vector_queue where kind = 'document')
  and (v.id is null or v.embedding <> vec_quantize_binary(e.embedding) or v.content_hash <> e.content_hash)
union all
select v.id, 'its vector is gone' from document_vec v
left join document_embedding e on e.id = v.id and e.model = (select value from setting where name = 'model')
where e.id is null and v.id not in (select id from vector_queue where kind = 'document');

-- name: check_hype_vec
select e.question_id, 'it is missing, or not that of the vector' from question_embedding e
left join hype_vec v on v.id = e.question_id
where e.model = (select value from setting where name = 'model')
  and e.question_id not in (select id from vector_queue where kind = 'hype')
  and (v.id is null or v.embedding <> vec_quantize_binary(e.embedding))
union all
select v.id, 'its vector is gone' from hype_vec v
left join question_embedding e on e.question_id = v.id and e.model = (select value from setting where name = 'model')
where e.question_id is null and v.id not in (select id from vector_queue where kind = 'hype');

-- name: document_paths
select path from document order by path;

-- name: check_document_embedding
select e.id, d.path, e.embedding, e.crc from document_embedding e left join document d on d.id = e.document_id;

-- name: check_question_embedding
select e.rowid, d.path, e.embedding, e.crc from question_embedding e
left join question q on q.id = e.question_id
left join document d on d.id = q.document_id;

-- name: settings
select name, value from setting;

-- name: setting_missing
insert into setting (name, value) values (:name, :value) on conflict do nothing;

-- name: orphan_question
delete from question where document_id not in (select id from document);

-- name: orphan_question_embedding
delete from question_embedding where question_id not in (select id from question);

-- name: orphan_document_embedding
delete from document_embedding where document_id not in (select id from document);

-- name: orphan_questioned
delete from questioned where document_id not in (select id from document);

-- name: orphan_failure
delete from failure where document_id not in (select id from document);

-- name: orphan_source_file
delete from source_file where document_id not in (select id from document);

-- name: orphan_segmented
delete from document_segmented where id not in (select id from document);

-- name: segmented_clear
delete from document_segmented;

-- name: segmented_fill
insert into document_segmenting (id, title, tags, path, description, body)
select id, title, tags, path, description, body from document;

-- name: words_rebuild
insert into document_fts (document_fts) values ('rebuild');

-- name: document_embedding_lost
-- With those of the document's other passages: a document has all of them, or is pending.
delete from document_embedding where id = :id
  or document_id = (select document_id from document_embedding where id = :id)
  or document_id = (select id from document where path = :path);

-- name: question_embedding_lost
delete from question_embedding where rowid = :id and :path is not null;

-- name: document_hash_unknown
update document set content_hash = null where path = :path;

-- name: model_of_newest
update setting set value = coalesce(
  (select model from document_embedding order by id desc limit 1),
  (select model from question_embedding order by rowid desc limit 1))
where name in ('model', 'model_name');

-- name: vector_tables_drop
drop table if exists document_vec;
drop table if exists hype_vec;

-- name: vector_tables_forget
delete from sqlite_schema
where tbl_name in ('document_vec', 'hype_vec') or tbl_name like 'document\_vec\_%' escape '\'
  or tbl_name like 'hype\_vec\_%' escape '\';

-- History ----------------------------------------------------------------------------------------------------------

-- name: versions
select id, path, event, replaced, title, tags, description, created, updated, frontmatter, body
from document_version
where path = :path
  or document_id = (select id from document where path = :path)
  or document_id in (select document_id from document_version where path = :path and event = 'delete')
order by id desc;

-- name: versions_prune
delete from document_version
where exists (select 1 from setting where name in ('keep_versions', 'keep_days') and value is not null)
  and not exists (
    select 1 from setting
    where name = 'keep_days' and document_version.replaced >= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || value || ' days'))
  and not exists (
    select 1 from setting
    where name = 'keep_versions'
      and value > (
        select count(*) from document_version n
        where n.document_id = document_version.document_id and n.id > document_version.id));

-- name: as_of_documents
create temp table document as
select id, path, title, tags, description, body, created, updated, null as content_hash,
  iif(instr(path, '/'), substr(path, 1, instr(path, '/') - 1), '') as topic,
  case when path = 'SKILL.md' or substr(path, -9) = '/SKILL.md' then 'skill'
       when substr(path, 1, 8) = 'journal/' then 'journal'
       else 'kb' end as type
from (
  -- what was replaced after that moment, and not by something older
  select v.document_id as id, v.path, v.title, v.tags, v.description, v.body, v.created, v.updated
  from main.document_version v
  where v.id in (
    select min(id) from main.document_version where replaced > :at group by document_id)
  union all
  select id, path, title, tags, description, body, created, updated
  from main.document
  where id not in (select document_id from main.document_version where replaced > :at))
where created is null or created <= :at;

-- name: as_of_words
create virtual table temp.document_fts using fts5 (
  title, tags, path, description, body, tokenize = 'porter unicode61 remove_diacritics 2');
insert into temp.document_fts (rowid, title, tags, path, description, body)
select id, title, tags, path, description, body from temp.document;

-- name: as_of_drop
drop table if exists temp.document_fts;
drop table if exists temp.document;
