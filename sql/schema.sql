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
--   question_fts          FTS5 over their texts: a question's words find its document, too
--   questioned            which text of a document the LLM was asked about, and when
--   question_embedding    the vectors of the questions
--   vector_queue          what vectors.sql has still to copy into the two vec0 tables (document_vec, hype_vec)
--   failure               the last error of each document whose vectors or questions could not be made
--   source_file           mirrored folders: which file is which document, and which of the two is newer
--   ranking               type of document -> weight, half-life in days, floor
--   retriever             list of the fusion -> weight, depth
--   setting               rrf_k, column weights, the model that made the vectors, the LLM for questions
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
  ('neighbours_weight', 0.75),         -- words side by side in the query and in the document
  ('question_weight', 1.0),            -- the words of a document's best question, beside its own
  ('full', 0.7),                       -- share of the way from any passage to the same text that makes a full match
  ('coverage', 0.8),                   -- share of the query's content words that title, tags and path must cover
  ('model', null),                     -- fingerprint of the model whose vectors serve
  ('model_name', null),
  ('model_weight', 1.0),               -- how far they are trusted: the starter 0.35, any other model 1
  ('keep_versions', null),             -- of each document; NULL: all. A version goes when every limit that is set lets it
  ('keep_days', null),                 -- NULL: for ever
  ('folder', null),                    -- the mirrored folder that new notes are written to
  ('hype_model', null),                -- the LLM that writes questions, by its litellm name; NULL: none
  ('hype_prompt', null),               -- what it is told; NULL: kbstore's own prompt
  ('hype_temperature', 0.3),
  ('hype_max_tokens', 1024),
  ('hype_timeout', 60);                -- seconds a call

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

insert into retriever (name, power) values ('frontmatter', 0), ('words', 2), ('vectors', 3);

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

-- Writing through this view splits the text (triggers.sql); a view with a trigger is the nearest thing to a procedure
-- in SQL.
create view document_segmenting as select id, title, tags, path, description, body from document where false;

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
  crc integer,                                                -- CRC-32 of the embedding; NULL: not known
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

-- Their words, those without spaces split as in document_segmented. Filled by triggers, through the view.
create virtual table question_fts using fts5 (text, tokenize = 'porter unicode61 remove_diacritics 2');
create view question_segmenting as select id, text from question where false;

-- Which text the LLM was asked about last: a document without a row, or with another hash, is still to be asked about.
create table questioned (
  document_id integer primary key references document (id) on delete cascade,
  content_hash text not null,
  model text not null,
  asked text not null default (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
) strict;

create index questioned_content_hash on questioned (content_hash);

create table question_embedding (
  question_id integer not null references question (id) on delete cascade,
  embedding blob not null check (length(embedding) = 3072),
  model text not null,
  crc integer,
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
  document_id integer references document (id) on delete set null,  -- NULL: it was deleted, and the file will be
  size integer not null,
  mtime_ns integer not null,
  hash text not null,                                         -- SHA-256 of the file's bytes; '': not written yet
  changed text,                                               -- since when the document is newer than the file
  primary key (root, file)
) strict, without rowid;

create index source_file_document on source_file (document_id);
