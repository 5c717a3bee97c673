-- Views for people. None touches a vec0 table, so a shell without the extension can read them all.

-- The notes, newest first, with what the search will do to them.
drop view if exists v_document;
create view v_document as
select d.path, d.title, d.type, d.topic, d.tags, d.created, d.updated,
  round(julianday('now') - julianday(d.updated), 1) as age_days,
  coalesce(r.weight, 1.0) as type_weight,
  round(iif(r.half_life_days is null or d.updated is null, 1.0,
    max(r.floor, exp(-ln(2) * max(0.0, julianday('now') - julianday(d.updated)) / r.half_life_days))), 3) as recency,
  length(d.body) as characters,
  (select count(*) from document_embedding e
   where e.document_id = d.id and e.content_hash = d.content_hash
     and e.model = (select value from setting where name = 'model')) as passages,
  (select count(*) from question q
   where q.document_id = d.id and not q.vetoed
     and (q.content_hash is null or q.content_hash = d.content_hash)) as questions,
  (select count(*) from document_version v where v.document_id = d.id) as versions,
  d.id
from document d
left join ranking r on r.type = d.type
order by d.updated desc, d.path;

drop view if exists v_topic;
create view v_topic as
select topic, type, count(*) as documents, max(updated) as latest
from document
group by topic, type
order by topic, type;

drop view if exists v_tag;
create view v_tag as
select t.value as tag, count(*) as documents
from document d, json_each(d.tags) t
group by t.value collate nocase
order by documents desc, tag;

-- What is still to be done, with the last error. 'document': it has no vectors of the model that serves. 'question': the
-- same, of a question. 'hype': the LLM (setting hype_model; none: nobody waits) has not been asked about this text.
drop view if exists v_pending;
create view v_pending as
select d.path, 'document' as what, null as question, d.updated, f.error, coalesce(f.tries, 0) as tries,
  f.failed, d.id as document_id
from document d
left join failure f on f.document_id = d.id and f.stage = 'embed'
where not exists (
  select 1 from document_embedding e
  where e.document_id = d.id and e.content_hash = d.content_hash
    and e.model = (select value from setting where name = 'model'))
union all
select d.path, 'question', q.text, d.updated, f.error, coalesce(f.tries, 0), f.failed, d.id
from question q
join document d on d.id = q.document_id
left join failure f on f.document_id = d.id and f.stage = 'embed'
where not q.vetoed
  and (q.content_hash is null or q.content_hash = d.content_hash)
  and not exists (
    select 1 from question_embedding e
    where e.question_id = q.id and e.model = (select value from setting where name = 'model'))
union all
select d.path, 'hype', null, d.updated, f.error, coalesce(f.tries, 0), f.failed, d.id
from document d
left join failure f on f.document_id = d.id and f.stage = 'hype'
where (select value from setting where name = 'hype_model') is not null
  and case                                                    -- the text is read only where there is no other way
    when exists (select 1 from questioned a where a.document_id = d.id and a.content_hash = d.content_hash) then false
    else trim(d.body, char(9, 10, 13, 32)) <> '' end;

-- Vectors and generated questions that belong to an older text of their document; the search leaves them out.
drop view if exists v_stale;
create view v_stale as
select d.path, 'passage ' || e.seq as what, d.id as document_id
from document_embedding e
join document d on d.id = e.document_id
where e.content_hash is not d.content_hash
union all
select d.path, 'question: ' || q.text, d.id
from question q
join document d on d.id = q.document_id
where not q.vetoed and q.content_hash is not null and q.content_hash is not d.content_hash;

-- The questions, by document. 'pending': it has no vector yet. 'stale': it was made from an older text.
drop view if exists v_question;
create view v_question as
select q.id, d.path, q.text, q.origin,
  case
    when q.vetoed then 'vetoed'
    when q.content_hash is not null and q.content_hash is not d.content_hash then 'stale'
    when exists (
      select 1 from question_embedding e
      where e.question_id = q.id and e.model = (select value from setting where name = 'model')) then 'searched'
    else 'pending' end as state,
  q.model
from question q
join document d on d.id = q.document_id
order by d.path, q.id;

-- Every overwritten, moved or deleted version, the latest first.
drop view if exists v_history;
create view v_history as
select v.path, v.event, v.replaced, v.title, length(v.body) as characters, v.id as version, v.document_id
from document_version v
order by v.id desc;

-- The files of the mirrored folders, and what the next sync will do to them for the store's part.
drop view if exists v_mirror;
create view v_mirror as
select s.root, s.file, d.path,
  case when s.document_id is null then 'to delete' when s.changed is not null then 'to write' else 'equal' end as state,
  s.changed
from source_file s
left join document d on d.id = s.document_id
order by s.root, s.file;

drop table if exists kb_help;
create table kb_help (
  name text primary key,
  what text not null,
  example text not null
) strict, without rowid;

insert into kb_help (name, what, example) values
  ('document', 'The notes. Insert, update and delete by hand: words follow at once, vectors at the next `kbstore embed`.',
   'update document set title = ''A better title'' where path = ''domains/http-retries.md'';'),
  ('document_fts', 'Full-text search: quote each word, join with OR; snippet column 4 is the body. search_words.sql (`kbstore sql search_words`) does all that and fuses, weighs and explains.',
   'select d.path, d.title, snippet(document_fts, 4, ''['', '']'', ''…'', 16) as snippet from document_fts f join document d on d.id = f.rowid where document_fts match ''"retries" OR "backoff"'' order by bm25(document_fts, 3, 2, 1, 1, 1) limit 10;'),
  ('document_version', 'Every version that was overwritten, moved or deleted, whole.',
   'select replaced, title, body from document_version where path = ''domains/http-retries.md'' order by id desc;'),
  ('document_words', 'View: what document_fts indexes.', 'select title, body from document_words limit 1;'),
  ('document_segmented', 'Scripts written without spaces, split for document_fts. Kept by triggers.',
   'select count(*) from document_segmented;'),
  ('document_segmenting', 'View without rows: writing to it fills document_segmented. For the triggers.',
   'select count(*) from document_segmenting;'),
  ('document_embedding', 'Vectors of the documents, one row a passage: 768 float32. With sqlite-vec, search.sql takes one as :embedding.',
   'select d.path, e.seq, e.body_start, e.body_end, e.model from document_embedding e join document d on d.id = e.document_id limit 10;'),
  ('document_vec', 'vec0 table (needs sqlite-vec): bits of document_embedding, for the scan. Derived.',
   'select kind, id from vector_queue;'),
  ('hype_vec', 'vec0 table (needs sqlite-vec): bits of question_embedding, for the scan. Derived.',
   'select kind, id from vector_queue;'),
  ('question', 'Questions that a document answers. Add your own; vetoed = 1 silences one.',
   'insert into question (document_id, text) select id, ''How often do we retry?'' from document where path = ''domains/http-retries.md'';'),
  ('question_fts', 'Full-text search over the questions; its rowid is the id of question. Kept by triggers.',
   'select q.document_id, q.text from question_fts f join question q on q.id = f.rowid where question_fts match ''"retry"'' order by bm25(question_fts) limit 10;'),
  ('question_segmenting', 'View without rows: writing to it fills question_fts. For the triggers.',
   'select count(*) from question_segmenting;'),
  ('questioned', 'Which text of a document the LLM was asked about. Delete a row to have it asked again.',
   'select d.path, a.model, a.asked from questioned a join document d on d.id = a.document_id limit 10;'),
  ('question_embedding', 'Vectors of the questions.',
   'select q.text, e.model from question_embedding e join question q on q.id = e.question_id limit 10;'),
  ('vector_queue', 'What has still to be copied into the vec0 tables; the next writer with sqlite-vec does it.',
   'select kind, count(*) from vector_queue group by kind;'),
  ('failure', 'The last error of each document whose vectors or questions could not be made.',
   'select d.path, f.stage, f.error, f.tries from failure f join document d on d.id = f.document_id;'),
  ('source_file', 'Mirrored folders: which file is which document, and which of the two is newer.',
   'select root, file, d.path from source_file s join document d on d.id = s.document_id limit 10;'),
  ('ranking', 'Type of document -> weight, half-life in days (NULL: no decay), floor.',
   'update ranking set half_life_days = 90 where type = ''journal'';'),
  ('retriever', 'The three lists of the fusion: weight, power (0: by rank alone), entry, depth.',
   'update retriever set power = 0, depth = entry;'),
  ('setting', 'rrf_k, column weights of BM25, the model whose vectors serve, the LLM that writes questions.',
   'update setting set value = ''openai/gpt-4o-mini'' where name = ''hype_model'';'),
  ('stop_word', 'Words that a query drops.', 'insert into stop_word (word) values (''hello'') on conflict do nothing;'),
  ('kb_help', 'This table.', 'select name, what from kb_help;'),
  ('v_document', 'The notes with age, type weight, recency, number of passages, questions and versions.',
   'select path, title, updated from v_document limit 20;'),
  ('v_topic', 'Topics with the number of notes.', 'select * from v_topic;'),
  ('v_tag', 'Tags with the number of notes.', 'select * from v_tag limit 20;'),
  ('v_pending', 'What has no vectors (document, question) or no generated questions (hype) yet, with the last error. `kbstore embed` and `kbstore hype` work it off.',
   'select path, what, error, tries from v_pending;'),
  ('v_question', 'The questions with what becomes of them: searched, pending, stale, vetoed.',
   'select id, path, text, state from v_question limit 20;'),
  ('v_stale', 'Vectors and questions of an older text; never found, replaced at the next embed.', 'select * from v_stale;'),
  ('v_mirror', 'The mirrored files: equal to their documents, to write, or to delete at the next sync.',
   'select file, path, state from v_mirror where state <> ''equal'';'),
  ('v_history', 'Overwritten, moved and deleted versions, the latest first.', 'select * from v_history limit 20;');
