-- What a change sets off: words follow documents, history keeps what was overwritten, stale vectors lose their place.
-- Run after schema.sql, and again whenever the schema has been brought up to date.
-- Foreign keys are off in a bare shell, so the triggers below also clear what belongs to a document.

-- Words ------------------------------------------------------------------------------------------------------------

drop trigger if exists document_segmenting_insert;
create trigger document_segmenting_insert instead of insert on document_segmenting
begin
  delete from document_segmented where id = new.id;
  -- In blocks of 65,536 characters and pieces of 256, since substr() walks a text from its start: one pass would be
  -- quadratic.
  insert into document_segmented (id, title, tags, path, description, body)
  select new.id, segmented ->> '$[0]', segmented ->> '$[1]', segmented ->> '$[2]', segmented ->> '$[3]',
    segmented ->> '$[4]'
  from (
    select (
      with recursive
        source (text) as (select json_array(new.title, new.tags, new.path, new.description, new.body)),
        block (at, part) as (
          select 1, substr(text, 1, 65536) from source
          union all
          select at + 65536, substr(text, at + 65536, 65536) from block, source where length(part) = 65536),
        step (i) as (select 0 union all select i + 256 from step where i < 65280),
        piece (at, part) as materialized (
          select at + i, substr(part, i + 1, 256) from block cross join step where i < length(part)),
        place (i) as (select 1 union all select i + 1 from place where i < 256)
      select replace(group_concat(character, ''), char(8203, 8203), char(8203)) from (
        select iif(
          substr(part, i, 1) glob '[฀-໿က-႟ក-៿぀-ヿㄅ-ㄯ㐀-鿿가-힣豈-﫿ｦ-ﾟ𠀀-𿿽]',
          char(8203) || substr(part, i, 1) || char(8203), substr(part, i, 1)) as character
        from piece cross join place where i <= length(part)
        order by at, i)
    ) as segmented
    limit 1)                                                  -- keeps the planner from splitting it once a column
  where new.title || new.tags || new.path || new.description || new.body
    glob '*[฀-໿က-႟ក-៿぀-ヿㄅ-ㄯ㐀-鿿가-힣豈-﫿ｦ-ﾟ𠀀-𿿽]*';
end;

-- Documents --------------------------------------------------------------------------------------------------------

drop trigger if exists document_before_insert;
create trigger document_before_insert before insert on document
begin
  -- REPLACE deletes the old row without a trigger unless recursive_triggers is on: its words would stay behind.
  select raise(abort, 'a document with this path or id exists: use update document set … where path = …')
  where exists (select 1 from document where path = new.path or id = new.id);
  select raise(abort, 'tags must be a JSON array of texts, such as ["http", "reliability"]')
  where json_valid(new.tags) and exists (select 1 from json_each(new.tags) where type <> 'text' or trim(value) = '');
end;

drop trigger if exists document_after_insert;
create trigger document_after_insert after insert on document
begin
  insert into document_segmenting (id, title, tags, path, description, body)
  values (new.id, new.title, new.tags, new.path, new.description, new.body);
  insert into document_fts (rowid, title, tags, path, description, body)
  select id, title, tags, path, description, body from document_words where id = new.id;
end;

drop trigger if exists document_before_update;
create trigger document_before_update before update of id, path, tags on document
begin
  select raise(abort, 'the id of a document never changes') where new.id is not old.id;
  select raise(abort, 'another document has this path')
  where new.path <> old.path and exists (select 1 from document where path = new.path);
  select raise(abort, 'tags must be a JSON array of texts, such as ["http", "reliability"]')
  where json_valid(new.tags) and exists (select 1 from json_each(new.tags) where type <> 'text' or trim(value) = '');
end;

-- Nothing is written before the row is: UPDATE OR IGNORE may still leave it as it was.
drop trigger if exists document_after_update;
create trigger document_after_update after update of path, title, tags, description, body, frontmatter on document
begin
  insert into document_version
    (document_id, path, title, tags, description, created, updated, content_hash, frontmatter, body, event)
  select old.id, old.path, old.title, old.tags, old.description, old.created, old.updated, old.content_hash,
    old.frontmatter, old.body,
    iif((old.tags, old.description, old.frontmatter, old.body)
      is (new.tags, new.description, new.frontmatter, new.body) and old.path <> new.path, 'move', 'update')
  where (old.path, old.title, old.tags, old.description, old.frontmatter, old.body)
    is not (new.path, new.title, new.tags, new.description, new.frontmatter, new.body);
  -- document_segmented still holds the old text, split as it was indexed
  insert into document_fts (document_fts, rowid, title, tags, path, description, body)
  select 'delete', old.id, coalesce(s.title, old.title), coalesce(s.tags, old.tags), coalesce(s.path, old.path),
    coalesce(s.description, old.description), coalesce(s.body, old.body)
  from (select 1) left join document_segmented s on s.id = old.id;
  insert into document_segmenting (id, title, tags, path, description, body)
  values (new.id, new.title, new.tags, new.path, new.description, new.body);
  insert into document_fts (rowid, title, tags, path, description, body)
  select id, title, tags, path, description, body from document_words where id = new.id;
  -- A writer that knows the new text's hash sets it in the same statement; anybody else's change leaves it unknown.
  update document set content_hash = null
  where id = new.id and new.content_hash is old.content_hash and new.content_hash is not null
    and (new.title, new.tags, new.description, new.body) is not (old.title, old.tags, old.description, old.body);
  delete from failure
  where document_id = new.id
    and (new.title, new.tags, new.description, new.body) is not (old.title, old.tags, old.description, old.body);
end;

drop trigger if exists document_after_change;
create trigger document_after_change
after update of path, title, tags, description, created, updated, frontmatter, body on document
when (old.path, old.title, old.tags, old.description, old.created, old.updated, old.frontmatter, old.body)
  is not (new.path, new.title, new.tags, new.description, new.created, new.updated, new.frontmatter, new.body)
begin
  update source_file set changed = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') where document_id = new.id;
end;

drop trigger if exists document_before_delete;
create trigger document_before_delete before delete on document
begin
  insert into document_version
    (document_id, path, title, tags, description, created, updated, content_hash, frontmatter, body, event)
  values
    (old.id, old.path, old.title, old.tags, old.description, old.created, old.updated, old.content_hash,
     old.frontmatter, old.body, 'delete');
  insert into document_fts (document_fts, rowid, title, tags, path, description, body)
  select 'delete', id, title, tags, path, description, body from document_words where id = old.id;
  delete from document_segmented where id = old.id;
  delete from document_embedding where document_id = old.id;
  delete from question where document_id = old.id;
  delete from questioned where document_id = old.id;
  delete from failure where document_id = old.id;
  update source_file set document_id = null, changed = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') where document_id = old.id;
end;

-- The limits of the history, if any are set: a few old versions go whenever one comes.
drop trigger if exists document_version_after_insert;
create trigger document_version_after_insert after insert on document_version
when exists (select 1 from setting where name in ('keep_versions', 'keep_days') and value is not null)
begin
  delete from document_version where id in (
    select v.id from document_version v
    where (v.document_id = new.document_id or v.id <= (select min(id) + 20 from document_version))
      and not exists (
        select 1 from setting where name = 'keep_days' and v.replaced >= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || value || ' days'))
      and not exists (
        select 1 from setting
        where name = 'keep_versions'
          and value > (select count(*) from document_version n where n.document_id = v.document_id and n.id > v.id)));
end;

-- Questions --------------------------------------------------------------------------------------------------------

drop trigger if exists question_before_insert;
create trigger question_before_insert before insert on question
begin
  select raise(abort, 'no document has this id') where not exists (select 1 from document where id = new.document_id);
  select raise(abort, 'the document has this question already: update question set … where id = …')
  where exists (
    select 1 from question where id = new.id or document_id = new.document_id and text = new.text);
end;

drop trigger if exists question_segmenting_insert;
create trigger question_segmenting_insert instead of insert on question_segmenting
begin
  delete from question_fts where rowid = new.id;
  insert into question_fts (rowid, text)
  select new.id, group_concat(character, '') from (
    with recursive place (i) as (select 1 union all select i + 1 from place where i < min(length(new.text), 4096))
    select iif(substr(new.text, i, 1) glob '[฀-໿က-႟ក-៿぀-ヿㄅ-ㄯ㐀-鿿가-힣豈-﫿ｦ-ﾟ𠀀-𿿽]',
      char(8203) || substr(new.text, i, 1) || char(8203), substr(new.text, i, 1)) as character
    from place order by i);
end;

drop trigger if exists question_after_insert;
create trigger question_after_insert after insert on question
begin
  insert into question_segmenting (id, text) values (new.id, new.text);
end;

drop trigger if exists question_before_update;
create trigger question_before_update before update of id, document_id, text on question
begin
  select raise(abort, 'the id and the document of a question never change')
  where new.id is not old.id or new.document_id is not old.document_id;
  select raise(abort, 'the document has this question already')
  where new.text <> old.text
    and exists (select 1 from question where document_id = new.document_id and text = new.text);
end;

drop trigger if exists question_after_update;
create trigger question_after_update after update of text on question
when new.text is not old.text
begin
  insert into question_segmenting (id, text) values (new.id, new.text);
  delete from question_embedding where question_id = new.id;
  -- what a person has written is never replaced by the LLM
  update question set origin = 'user', content_hash = null, model = null where id = new.id and origin = 'llm';
end;

drop trigger if exists question_before_delete;
create trigger question_before_delete before delete on question
begin
  delete from question_fts where rowid = old.id;
  delete from question_embedding where question_id = old.id;
end;

-- Vectors ----------------------------------------------------------------------------------------------------------

drop trigger if exists document_embedding_after_insert;
create trigger document_embedding_after_insert after insert on document_embedding
begin
  insert into vector_queue (kind, id) values ('document', new.id) on conflict do nothing;
end;

drop trigger if exists document_embedding_after_update;
create trigger document_embedding_after_update after update on document_embedding
begin
  insert into vector_queue (kind, id) values ('document', old.id), ('document', new.id) on conflict do nothing;
end;

drop trigger if exists document_embedding_after_delete;
create trigger document_embedding_after_delete after delete on document_embedding
begin
  insert into vector_queue (kind, id) values ('document', old.id) on conflict do nothing;
end;

drop trigger if exists question_embedding_after_insert;
create trigger question_embedding_after_insert after insert on question_embedding
begin
  insert into vector_queue (kind, id) values ('hype', new.question_id) on conflict do nothing;
end;

drop trigger if exists question_embedding_after_update;
create trigger question_embedding_after_update after update on question_embedding
begin
  insert into vector_queue (kind, id) values ('hype', old.question_id), ('hype', new.question_id)
  on conflict do nothing;
end;

drop trigger if exists question_embedding_after_delete;
create trigger question_embedding_after_delete after delete on question_embedding
begin
  insert into vector_queue (kind, id) values ('hype', old.question_id) on conflict do nothing;
end;
