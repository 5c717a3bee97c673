-- kbstore: one SQLite file holds the whole knowledge base of an agent.
--
-- The map of the file. Every name below is an ordinary table unless it says otherwise; `select * from kb_help` says
-- the same from inside, with an example for each.
--
--   document              the notes: one row a markdown file. Edit it by hand: the words follow at once, by trigger
--   document_version      every version that was overwritten, moved or deleted
--   document_fts          FTS5 over title, tags, path, description and body (reads through the view document_words)
--   document_segmented    scripts written without spaces (Chinese, Japanese, Thai …), split so that FTS5 finds parts
--   document_embedding    the vectors of a document, one row a passage
--   question              hypothetical questions (HyPE): what a document answers. Add, edit and veto them by hand
--   question_embedding    their vectors
--   vector_queue          what vectors.sql has still to copy into the two vec0 tables (document_vec, hype_vec)
--   failure               the last error of each document whose vectors or questions could not be made
--   source_file           mirrored folders: which file is which document, and how it looked when last read
--   ranking               type of document -> weight, half-life in days, floor
--   retriever             list of the fusion -> weight, depth
--   setting               rrf_k, column weights, the model that made the vectors
--   stop_word             words that a query drops
--   kb_help               what each table and view is for
--
-- Three rules hold everywhere:
--   1. content_hash names the text (title, tags, description, body) that was embedded. A change from a bare shell sets it to NULL:
--      the document is found by words at once, stands in v_pending, and is embedded at the next opportunity.
--   2. A vector or a generated question counts only while its content_hash is that of its document, so nothing stale
--      is ever found.
--   3. The vec0 tables are derived from the ordinary ones and can be rebuilt at any time without a model. No trigger
--      or view touches them: a shell without the extension can do everything else.

create table setting (
  name text primary key,
  value any
) strict, without rowid;

insert into setting (name, value) values
  ('rrf_k', 60),
  ('title_weight', 3.0),
  ('tags_weight', 2.0),
  ('path_weight', 1.0),
  ('description_weight', 1.0),
  ('body_weight', 1.0),
  ('coverage', 0.8),                   -- share of the query's content words that title, tags and path must cover
  ('model', null),                     -- fingerprint of the model whose vectors serve
  ('model_name', null),
  ('model_weight', 1.0);               -- how far they are trusted: the starter 0.35, any other model 1

create table ranking (
  type text primary key,
  weight real not null default 1.0 check (weight >= 0),
  half_life_days real check (half_life_days > 0),             -- NULL: no decay
  floor real not null default 0.0 check (floor between 0 and 1)
) strict, without rowid;

insert into ranking (type, weight, half_life_days) values
  ('kb', 1.0, null), ('skill', 1.2, null), ('journal', 0.8, 30);

create table retriever (
  name text primary key check (name in ('frontmatter', 'words', 'vectors')),
  weight real not null default 1.0 check (weight >= 0),
  power real not null default 0.0 check (power >= 0),           -- 0: by rank alone
  entry integer not null default 20 check (entry >= 1),       -- how many of its first documents it brings in
  depth integer not null default 200 check (depth between 1 and 4096)  -- how far down its ranks count
) strict, without rowid;

insert into retriever (name, power) values ('frontmatter', 0), ('words', 1), ('vectors', 2);

create table stop_word (
  word text primary key
) strict, without rowid;

insert into stop_word (word)
select value from json_each('["a","about","above","after","again","all","also","am","an","and","any","are","as","at","be","because","been","before","being","below","between","both","but","by","can","could","did","do","does","doing","down","during","each","else","ever","few","for","from","further","had","has","have","having","he","her","here","hers","him","his","how","i","i''m","if","in","into","is","it","it''s","its","itself","just","let","like","may","me","might","more","most","must","my","myself","no","nor","not","of","off","on","once","one","only","or","other","our","ours","out","over","own","please","same","shall","she","should","so","some","such","than","that","that''s","the","their","theirs","them","then","there","these","they","this","those","through","to","too","under","until","up","upon","us","very","was","we","were","what","what''s","when","where","which","while","who","whom","whose","why","will","with","would","you","your","yours"]');

-- Documents --------------------------------------------------------------------------------------------------------

create table document (
  id integer primary key autoincrement,                       -- never used twice
  path text not null unique,                                  -- relative, with forward slashes: domains/http-retries.md
  title text not null check (trim(title) <> '' and length(title) <= 1000),
  tags text not null default '[]' check (json_valid(tags) and json_type(tags) = 'array'),
  description text not null default '',                       -- one or two sentences, as skills have them
  created text,                                               -- ISO 8601, UTC: 2026-12-01 or 2026-12-01T10:00:00Z
  updated text,                                               -- the same; NULL: not known, does not decay
  content_hash text check (length(content_hash) = 64),
  topic text not null generated always as (
    iif(instr(path, '/'), substr(path, 1, instr(path, '/') - 1), '')) virtual,
  type text not null generated always as (
    case when path = 'SKILL.md' or substr(path, -9) = '/SKILL.md' then 'skill'
         when substr(path, 1, 8) = 'journal/' then 'journal'
         else 'kb' end) virtual,
  frontmatter text,                                           -- the file's header as it was written
  body text not null default '',                              -- last, so that reading the rest does not walk through it
  constraint path_is_relative check (
    path <> '' and length(path) <= 512
    and '/' || path || '/' not glob '*//*'
    and '/' || path || '/' not glob '*/./*'
    and '/' || path || '/' not glob '*/../*'
    and path not glob '*[' || char(1) || '-' || char(31) || char(92) || char(127) || ']*'
    and instr(path, char(0)) = 0),
  constraint created_is_a_date check (
    created is null or julianday(created) is not null and date(julianday(substr(created, 1, 10))) is substr(created, 1, 10)),
  constraint updated_is_a_date check (
    updated is null or julianday(updated) is not null and date(julianday(substr(updated, 1, 10))) is substr(updated, 1, 10))
) strict;

create index document_type_updated on document (type, updated);
create index document_content_hash on document (content_hash);

create table document_version (
  id integer primary key autoincrement,
  document_id integer not null,
  path text not null,
  title text not null,
  tags text not null,
  description text not null,
  created text,
  updated text,
  content_hash text,
  frontmatter text,
  body text not null,
  event text not null check (event in ('update', 'move', 'delete')),
  replaced text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict;

create index document_version_document on document_version (document_id, id);
create index document_version_path on document_version (path, id);

-- Words ------------------------------------------------------------------------------------------------------------

-- Only for documents with text that is written without spaces: the same five columns with a zero-width space (which
-- FTS5 reads as a separator, and a person does not see) on both sides of every such character.
create table document_segmented (
  id integer primary key references document (id) on delete cascade,
  title text not null,
  tags text not null,
  path text not null,
  description text not null,
  body text not null
) strict;

create view document_words as
select d.id,
  coalesce(s.title, d.title) as title,
  coalesce(s.tags, d.tags) as tags,
  coalesce(s.path, d.path) as path,
  coalesce(s.description, d.description) as description,
  coalesce(s.body, d.body) as body
from document d
left join document_segmented s on s.id = d.id;

create virtual table document_fts using fts5 (
  title, tags, path, description, body,
  content = 'document_words', content_rowid = 'id',
  tokenize = 'porter unicode61 remove_diacritics 2'
);

-- Few index segments make every look-up cheaper, at the price of a little more work a write.
insert into document_fts (document_fts, rank) values ('automerge', 2);

-- Writing through this view splits the text; a view with a trigger is the nearest thing to a procedure in SQL.
create view document_segmenting as select id, title, tags, path, description, body from document where false;

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

-- Vectors and questions --------------------------------------------------------------------------------------------

create table document_embedding (
  id integer primary key autoincrement,                       -- also the id in document_vec
  document_id integer not null references document (id) on delete cascade,
  seq integer not null check (seq >= 0),                      -- passage 0, 1, 2 … of the document
  body_start integer not null,                                -- characters of the body that it covers: from …
  body_end integer not null,                                  -- … up to
  embedding blob not null check (length(embedding) = 3072),   -- 768 float32, L2-normalised
  content_hash text not null,
  model text not null,                                        -- fingerprint
  unique (document_id, model, content_hash, seq)
) strict;

create index document_embedding_reuse on document_embedding (content_hash, model);

create table question (
  id integer primary key autoincrement,                       -- also the id in hype_vec
  document_id integer not null references document (id) on delete cascade,
  text text not null check (trim(text) <> ''),
  origin text not null default 'user' check (origin in ('user', 'llm')),
  vetoed integer not null default 0 check (vetoed in (0, 1)),
  content_hash text,                                          -- the text it was generated from; NULL: a person's, always valid
  model text,                                                 -- the LLM that wrote it
  unique (document_id, text)
) strict;

create table question_embedding (
  question_id integer not null references question (id) on delete cascade,
  embedding blob not null check (length(embedding) = 3072),
  model text not null,
  unique (question_id, model)
) strict;

create table vector_queue (
  kind text not null check (kind in ('document', 'hype')),
  id integer not null,
  primary key (kind, id)
) strict, without rowid;

create table failure (
  document_id integer not null references document (id) on delete cascade,
  stage text not null check (stage in ('embed', 'hype')),
  error text not null,
  tries integer not null default 1,
  failed text not null default (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
  primary key (document_id, stage)
) strict, without rowid;

-- Mirrored folders -------------------------------------------------------------------------------------------------

create table source_file (
  root text not null,                                         -- the folder, absolute
  file text not null,                                         -- relative to it, as the disk spells it
  document_id integer not null references document (id) on delete cascade,
  size integer not null,
  mtime_ns integer not null,
  hash text not null,                                         -- SHA-256 of the file's bytes
  primary key (root, file)
) strict, without rowid;

create index source_file_document on source_file (document_id);

-- What a change sets off -------------------------------------------------------------------------------------------
-- Foreign keys are off in a bare shell, so the triggers below clear what belongs to a document.

create trigger document_before_insert before insert on document
begin
  -- REPLACE deletes the old row without a trigger unless recursive_triggers is on: its words would stay behind.
  select raise(abort, 'a document with this path or id exists: use update document set … where path = …')
  where exists (select 1 from document where path = new.path or id = new.id);
  select raise(abort, 'tags must be a JSON array of texts, such as ["http", "reliability"]')
  where json_valid(new.tags) and exists (select 1 from json_each(new.tags) where type <> 'text' or trim(value) = '');
end;

create trigger document_after_insert after insert on document
begin
  insert into document_segmenting (id, title, tags, path, description, body)
  values (new.id, new.title, new.tags, new.path, new.description, new.body);
  insert into document_fts (rowid, title, tags, path, description, body)
  select id, title, tags, path, description, body from document_words where id = new.id;
end;

create trigger document_before_update before update of id, path, tags on document
begin
  select raise(abort, 'the id of a document never changes') where new.id is not old.id;
  select raise(abort, 'another document has this path')
  where new.path <> old.path and exists (select 1 from document where path = new.path);
  select raise(abort, 'tags must be a JSON array of texts, such as ["http", "reliability"]')
  where json_valid(new.tags) and exists (select 1 from json_each(new.tags) where type <> 'text' or trim(value) = '');
end;

-- Nothing is written before the row is: UPDATE OR IGNORE may still leave it as it was.
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
  delete from failure where document_id = old.id;
  delete from source_file where document_id = old.id;
end;

create trigger question_before_insert before insert on question
begin
  select raise(abort, 'no document has this id') where not exists (select 1 from document where id = new.document_id);
  select raise(abort, 'the document has this question already: update question set … where id = …')
  where exists (
    select 1 from question where id = new.id or document_id = new.document_id and text = new.text);
end;

create trigger question_before_update before update of id, document_id, text on question
begin
  select raise(abort, 'the id and the document of a question never change')
  where new.id is not old.id or new.document_id is not old.document_id;
  select raise(abort, 'the document has this question already')
  where new.text <> old.text
    and exists (select 1 from question where document_id = new.document_id and text = new.text);
end;

create trigger question_after_update after update of text on question
when new.text is not old.text
begin
  delete from question_embedding where question_id = new.id;
end;

create trigger question_before_delete before delete on question
begin
  delete from question_embedding where question_id = old.id;
end;

create trigger document_embedding_after_insert after insert on document_embedding
begin
  insert into vector_queue (kind, id) values ('document', new.id) on conflict do nothing;
end;

create trigger document_embedding_after_update after update on document_embedding
begin
  insert into vector_queue (kind, id) values ('document', old.id), ('document', new.id) on conflict do nothing;
end;

create trigger document_embedding_after_delete after delete on document_embedding
begin
  insert into vector_queue (kind, id) values ('document', old.id) on conflict do nothing;
end;

create trigger question_embedding_after_insert after insert on question_embedding
begin
  insert into vector_queue (kind, id) values ('hype', new.question_id) on conflict do nothing;
end;

create trigger question_embedding_after_update after update on question_embedding
begin
  insert into vector_queue (kind, id) values ('hype', old.question_id), ('hype', new.question_id)
  on conflict do nothing;
end;

create trigger question_embedding_after_delete after delete on question_embedding
begin
  insert into vector_queue (kind, id) values ('hype', old.question_id) on conflict do nothing;
end;
