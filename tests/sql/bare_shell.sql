-- A stranger with the file and a shell: list, see what is pending, change a title, search. No extension.
.nullvalue -
insert into document (path, title, tags, updated, body) values
  ('domains/http-retries.md', 'HTTP retries', '["http", "reliability"]', '2026-11-02',
   'Between retries we wait 1, 2, 4 and 8 seconds, plus jitter.'),
  ('journal/2026-11-01.md', 'Sunday', '[]', '2026-11-01', 'The retries of the backup job were noisy.'),
  ('skills/release/SKILL.md', 'release', '[]', null, 'Tag, build, publish. If the upload fails, it retries.');

.print -- the notes
select path, title, type, topic, updated, type_weight, characters, passages from v_document order by path;
.print -- topics and tags
select * from v_topic;
select * from v_tag;
.print -- pending
select path, what, error, tries from v_pending order by path;
.print -- a better title is found at once
update document set title = 'Backoff' where path = 'domains/http-retries.md';
select event, path, title from v_history;
.parameter set :query "'backoff'"
.parameter set :now "'2026-12-01'"
.mode line
.read search_words.sql
.mode list
.print -- all three, fused and weighed
update retriever set power = 0, depth = entry;
.parameter set :query "'retries'"
.mode csv
.read search_words.sql
