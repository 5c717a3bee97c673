-- The search: one statement, three retrievers, reciprocal rank fusion.
--
--   sqlite3 kb.sqlite3
--   .load vec0
--   .parameter set :query "'how do we retry http calls'"
--   .read search.sql
--
-- search_words.sql is this file without what needs the extension (the lines marked `vectors`).
--
-- Parameters; all but the first may stay unset (NULL):
--   :query       text. Words are joined by OR; "two words" in quotes is a phrase; retr* is a prefix. Nothing raises.
--   :embedding   768 float32, L2-normalised, of the query (or of a document: finds what is like it)   -- vectors
--   :topic       path prefix: projects, projects/atlas         :type   kb, skill, journal        :tag   one tag
--   :since, :until   first and last day of `updated`
--   :now         the moment that ages are counted from, ISO 8601; NULL: now
--   :limit       10        :retrievers   some of 'frontmatter,words,vectors'; NULL: all
--
-- score = type_weight * recency * sum over the retrievers of weight * relative ^ power / (rrf_k + rank)
--
-- Reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009) knows ranks only: the first of a list of poor matches counts as
-- much as the first of a list of good ones. `relative` (0 to 1) says how good a match is by its retriever's own lights;
-- power 0 leaves it out. `update retriever set power = 0, depth = entry` with neighbours_weight 0 is the plain form. All weights, powers, depths,
-- half-lives and k are rows of retriever, ranking and setting.
with
  option as materialized (
    select
      coalesce(cast(:limit as integer), 10) as row_limit,
      julianday(coalesce(:now, 'now')) as now,
      (select value from setting where name = 'rrf_k') as k,
      (select value from setting where name = 'model') as model,
      coalesce(:topic, :type, :tag, :since, :until) is not null as filtered,
      -- Who asks for the journal, or names a date, does not want the newest: nothing decays.
      :type is 'journal' or :topic || '/' glob 'journal/*' or coalesce(:since, :until) is not null
        or :query glob '*[12][0-9][0-9][0-9]-[01][0-9]*'
        or exists (
          select 1
          from json_each('["January","February","March","April","May","June","July","August","September","October","November","December"]')
          where :query like '%' || value || ' %' and :query glob '*[0-9]*') as is_dated,
      ',' || coalesce(replace(:retrievers, ' ', ''), 'frontmatter,words,vectors') || ',' as retrievers
  ),

  -- A list is never shorter than what is asked for.
  list as materialized (
    select name, power, max(entry, row_limit) as entry, max(depth, row_limit) as depth,
      weight * iif(name = 'vectors', (select value from setting where name = 'model_weight'), 1) as weight
    from option
    cross join retriever
    where instr(retrievers, ',' || name || ',') and weight > 0
  ),

  eligible (id) as materialized (
    select d.id
    from option
    cross join document d
    where option.filtered
      and (:topic is null or substr(d.path, 1, length(rtrim(:topic, '/')) + 1) = rtrim(:topic, '/') || '/')
      and (:type is null or d.type = :type)
      and (:tag is null or exists (select 1 from json_each(d.tags) where value = :tag collate nocase))
      and (:since is null or julianday(d.updated) >= julianday(:since))
      and (:until is null or julianday(d.updated) < julianday(:until) + (length(:until) = 10)
        or julianday(d.updated) = julianday(:until))
  ),

  -- The query, as terms --------------------------------------------------------------------------------------------
  -- Every kind of white space is a space. A backslash parts words for FTS5 as a slash does; with it gone, every escape
  -- in the JSON below is json_quote's own.
  space (n, code, instead) as (
    select key, value, iif(value = 92, '/', ' ')
    from json_each('[92,9,10,11,12,13,133,160,5760,8192,8193,8194,8195,8196,8197,8198,8199,8200,8201,8202,8203,8232,8233,8239,8287,12288,65279]')
  ),
  spaced (n, text) as (
    select 0, substr(cast(:query as text), 1, 4096) where :query is not null
    union all
    select n + 1, replace(text, char(code), instead) from spaced join space using (n)
  ),
  -- The parts between double quotes: odd ones are phrases, unless the last quote was never closed.
  part (at, is_phrase, text) as (
    select e.key, e.key % 2 = 1 and e.key < max(e.key) over (), e.value
    from json_each((
      select '[' || replace(replace(json_quote(text), '\u0000', ' '), '\"', '","') || ']'
      from spaced order by n desc limit 1)) e
  ),
  token (at, is_phrase, text) as (
    select at * 10000, 1, substr(text, 1, 256) from part where is_phrase
    union all
    select at * 10000 + w.key, 0, substr(w.value, 1, 256)
    from part, json_each('[' || replace(json_quote(part.text), ' ', '","') || ']') w
    where not is_phrase
  ),
  -- A word has a letter or a digit in it: punctuation, arrows and emoji alone are none.
  word (at, is_phrase, text, bare) as materialized (
    select min(at), is_phrase, text, bare
    from (
      select at, is_phrase, text,
        lower(trim(text, ' .,;:!?()[]{}<>"''`*_/|~^+=&%#@$-' || char(8216, 8217, 8220, 8221, 8230, 8211, 8212))) as bare
      from token
      where text glob '*[0-9A-Za-zªµºÀ-ÖØ-öø-῿ⰀⰁ-ⷿ々-〇〡-〩〱-퟿豈-﷿ﹰ-ﻼ０-９Ａ-Ｚａ-ｚｦ-ￜ𐀀-𞿿𠀀-󠀀]*')
    group by bare, is_phrase
  ),
  content_word (at, is_phrase, text, bare) as materialized (
    select at, is_phrase, text, bare
    from word
    where is_phrase
      or not exists (select 1 from stop_word s where s.word = replace(word.bare, char(8217), ''''))
      or not exists (
        select 1 from word w
        where w.is_phrase or not exists (select 1 from stop_word s where s.word = replace(w.bare, char(8217), '''')))
    order by at
    limit 24
  ),
  -- Scripts written without spaces: the index holds one character a token, so the query asks for each pair of
  -- neighbours (of characters, or of a character and the word beside it).
  place (i) as (
    select 1 union all select i + 1 from place where i < 128
  ),
  piece (at, n, text) as materialized (
    select w.at, e.key, e.value
    from content_word w, json_each('[' || replace(json_quote((
      select group_concat(character, '')
      from (
        select iif(substr(w.text, i, 1) glob '[฀-໿က-႟ក-៿぀-ヿㄅ-ㄯ㐀-鿿가-힣豈-﫿ｦ-ﾟ𠀀-𿿽]',
          char(8203) || substr(w.text, i, 1) || char(8203), substr(w.text, i, 1)) as character
        from place where i <= length(w.text)
        order by i))), char(8203), '","') || ']') e
    where w.text glob '*[฀-໿က-႟ក-៿぀-ヿㄅ-ㄯ㐀-鿿가-힣豈-﫿ｦ-ﾟ𠀀-𿿽]*' and e.value glob '*[0-9A-Za-zªµºÀ-ÖØ-öø-῿ⰀⰁ-ⷿ々-〇〡-〩〱-퟿豈-﷿ﹰ-ﻼ０-９Ａ-Ｚａ-ｚｦ-ￜ𐀀-𞿿𠀀-󠀀]*'
  ),
  term (at, expression) as materialized (
    select at,
      iif(not is_phrase and length(bare) > 2 and text glob '*[^*]*[*]',
        '"' || replace(rtrim(text, '*'), '"', '""') || '" *',
        '"' || replace(text, '"', '""') || '"')
    from content_word
    where text not glob '*[฀-໿က-႟ក-៿぀-ヿㄅ-ㄯ㐀-鿿가-힣豈-﫿ｦ-ﾟ𠀀-𿿽]*'
    union all
    select min(at), expression
    from (
      select at, count(*) over (partition by at) as pieces, n,
        '"' || replace(text || coalesce(char(8203) || lead(text) over (partition by at order by n), ''), '"', '""') || '"'
          as expression,
        lead(n) over (partition by at order by n) is null as is_last
      from piece)
    where pieces = 1 or not is_last
    group by expression
    order by 1
    limit 64
  ),
  match (expression) as materialized (
    select coalesce(group_concat(expression, ' OR '), '""') from term
  ),

  -- Retriever 1, frontmatter: documents whose title, tags and path cover most of the query's content words -----------
  frontmatter_hit (id, bm25) as materialized (
    select f.rowid, bm25(document_fts,
      (select value from setting where name = 'title_weight'),
      (select value from setting where name = 'tags_weight'),
      (select value from setting where name = 'path_weight'), 0.0, 0.0)
    from option
    join list on list.name = 'frontmatter'
    cross join term
    cross join document_fts f
    where document_fts match '{title tags path} : ' || term.expression
      and (not option.filtered or +f.rowid in (select id from eligible))
  ),
  frontmatter (id, rank, score, relative) as materialized (
    select id, rank() over (order by bm25), -bm25, covered
    from (
      select id, sum(bm25) as bm25, count(*) * 1.0 / (select count(*) from term) as covered
      from frontmatter_hit
      group by id
      having covered >= (select value from setting where name = 'coverage')
      order by bm25, id
      limit coalesce((select depth from list where name = 'frontmatter'), 0))
  ),

  -- Retriever 2, words: BM25 over everything -----------------------------------------------------------------------
  -- relative: share of the best BM25 that the corpus has for each term; a document that is best in every term has 1.
  -- A term that no document has counts with its inverse document frequency, ln(2 N + 1): else the one word of a question
  -- that many notes share would look like a full match. (Not below ten documents: there FTS5 weighs every word at next to
  -- nothing, since half of the documents have it.)
  attainable (bm25) as materialized (
    select sum(coalesce((
      select bm25(document_fts,
        (select value from setting where name = 'title_weight'),
        (select value from setting where name = 'tags_weight'),
        (select value from setting where name = 'path_weight'),
        (select value from setting where name = 'description_weight'),
        (select value from setting where name = 'body_weight')) as bm25
      from document_fts where document_fts match term.expression
      order by bm25 limit 1),
      iif(exists (select 1 from document limit 1 offset 9), -ln(2 * (select count(*) from document) + 1), 0.0))
      + coalesce((
        select (select value from setting where name = 'question_weight') * bm25(question_fts) as bm25
        from question_fts where question_fts match term.expression
        order by bm25 limit 1), 0.0))
    from list cross join term
    where list.name = 'words'
  ),
  word_hit (id, bm25) as materialized (
    select f.rowid, bm25(document_fts,
        (select value from setting where name = 'title_weight'),
        (select value from setting where name = 'tags_weight'),
        (select value from setting where name = 'path_weight'),
        (select value from setting where name = 'description_weight'),
        (select value from setting where name = 'body_weight')) as bm25
    from option
    join list on list.name = 'words'
    cross join document_fts f
    where document_fts match (select expression from match)
      and (not option.filtered or +f.rowid in (select id from eligible))
    order by bm25
    limit coalesce((select depth from list where name = 'words'), 0)
  ),
  -- Words that stand side by side in the query count more where they stand side by side in a document.
  neighbours (expression) as materialized (
    select coalesce(group_concat(expression || ' + ' || next, ' OR '), '""')
    from (
      select expression, lead(expression) over (order by at) as next, lead(at) over (order by at) - at as distance
      from term)
    where distance = 1 and expression not glob '*[*]'
  ),
  neighbours_hit (id, bm25) as materialized (
    select f.rowid, (select value from setting where name = 'neighbours_weight') * bm25(document_fts,
        (select value from setting where name = 'title_weight'),
        (select value from setting where name = 'tags_weight'),
        (select value from setting where name = 'path_weight'),
        (select value from setting where name = 'description_weight'),
        (select value from setting where name = 'body_weight')) as bm25
    from list
    cross join document_fts f
    where list.name = 'words' and document_fts match (select expression from neighbours)
    order by bm25
    limit coalesce((select depth from list where name = 'words'), 0)
  ),
  -- So do those of the best question that a document answers. (A row without words of the document names the question.)
  question_hit (id, bm25, question_id) as materialized (
    select q.document_id, min(f.bm25), q.id      -- q.id is that of the row with the minimum
    from option
    cross join list on list.name = 'words'
    cross join (
      select rowid as id, (select value from setting where name = 'question_weight') * bm25(question_fts) as bm25
      from question_fts
      where question_fts match (select expression from match)
      order by bm25
      limit coalesce((select 2 * depth from list where name = 'words'), 0)) f
    cross join question q on q.id = f.id and not q.vetoed
    cross join document d on d.id = q.document_id and (q.content_hash is null or q.content_hash = d.content_hash)
    where not option.filtered or d.id in (select id from eligible)
    group by q.document_id
  ),
  words (id, rank, score, relative, question_id) as materialized (
    select id, rank() over (order by bm25), -bm25, min(1.0, bm25 / (select bm25 from attainable)), question_id
    from (
      select id, sum(bm25) as bm25, iif(count(own), null, max(question_id)) as question_id
      from (
        select id, bm25, 1 as own, null as question_id from word_hit
        union all select id, bm25, null, null from neighbours_hit where id in (select id from word_hit)
        union all select id, bm25, null, question_id from question_hit)
      group by id
      order by bm25, id
      limit coalesce((select depth from list where name = 'words'), 0))
  ),

  -- vectors {
  -- Retriever 3, vectors: the best of a document's passages and of its questions -------------------------------------
  -- Bits find the candidates, the float32 vectors give the exact cosine. Several may belong to one document, so the
  -- list is much deeper than what it brings in; vec0 takes 4,096 at most. A filter is applied inside the scan.
  scan as materialized (
    select iif(:embedding is null, 0, min(4096, list.depth)) as size, option.filtered
    from option join list on list.name = 'vectors'
  ),
  passage_near (id) as materialized (
    select id from document_vec
    where embedding match vec_quantize_binary(coalesce(:embedding, zeroblob(3072)))
      and k = coalesce((select iif(filtered, 0, size) from scan), 0)
  ),
  passage_near_eligible (id) as materialized (
    select id from document_vec
    where embedding match vec_quantize_binary(coalesce(:embedding, zeroblob(3072)))
      and k = coalesce((select iif(filtered, size, 0) from scan), 0)
      and id in (select e.id from eligible cross join document_embedding e on e.document_id = eligible.id)
  ),
  question_near (id) as materialized (
    select id from hype_vec
    where embedding match vec_quantize_binary(coalesce(:embedding, zeroblob(3072)))
      and k = coalesce((select iif(filtered, 0, size) from scan), 0)
  ),
  question_near_eligible (id) as materialized (
    select id from hype_vec
    where embedding match vec_quantize_binary(coalesce(:embedding, zeroblob(3072)))
      and k = coalesce((select iif(filtered, size, 0) from scan), 0)
      and id in (select q.id from eligible cross join question q on q.document_id = eligible.id)
  ),
  candidate (id, question_id, similarity) as materialized (
    select e.document_id, null, 1 - vec_distance_cosine(e.embedding, :embedding)
    from (select id from passage_near union select id from passage_near_eligible) n
    cross join document_embedding e on e.id = n.id
    cross join document d on d.id = e.document_id and d.content_hash = e.content_hash
    where e.model = (select model from option)
    union all
    select q.document_id, q.id, 1 - vec_distance_cosine(e.embedding, :embedding)
    from (select id from question_near union select id from question_near_eligible) n
    cross join question q on q.id = n.id and not q.vetoed
    cross join question_embedding e on e.question_id = q.id and e.model = (select model from option)
    cross join document d on d.id = q.document_id and (q.content_hash is null or q.content_hash = d.content_hash)
  ),
  -- relative: the share of the way from just any passage (the mean of up to 128, spread over the store, and of two that have
  -- nothing in common with the query, lest a store of few notes be its own yardstick) to the same text, in units of `full`.
  spot (id) as materialized (
    select distinct (select id from document_embedding where id >= low + (high - low) * (i - 1) / 127 order by id limit 1)
    from scan
    cross join (select (select min(id) from document_embedding) as low, (select max(id) from document_embedding) as high)
    cross join place
    where size > 0
  ),
  background as materialized (
    select coalesce(sum(1 - vec_distance_cosine(e.embedding, :embedding)) / (count(*) + 2), 0.0) as similarity
    from spot
    cross join document_embedding e on e.id = spot.id
    where +e.model = (select model from option)
  ),
  vectors (id, rank, score, relative, question_id) as materialized (
    select id, rank() over (order by c.similarity desc), c.similarity,
      min(1.0, max(0.0, c.similarity - b.similarity) / (1 - b.similarity) / (select value from setting where name = 'full')),
      question_id
    from background b
    cross join (
      select id, max(similarity) as similarity, question_id      -- question_id is that of the row with the maximum
      from candidate
      group by id
      order by similarity desc, id
      limit coalesce((select depth from list where name = 'vectors'), 0)) c
  ),
  -- }

  -- Reciprocal rank fusion -----------------------------------------------------------------------------------------
  retrieved (name, id, rank, score, relative, question_id) as (
    select 'frontmatter', id, rank, score, relative, null from frontmatter
    union all select 'words', id, rank, score, relative, question_id from words
    union all select 'vectors', id, rank, score, relative, question_id from vectors   -- vectors
  ),
  -- The first documents of each list come in; what else a list knows of them, down to its depth, counts.
  contribution as materialized (
    select r.name, r.id, r.rank, r.score, r.question_id, r.rank <= list.entry as enters,
      list.weight * pow(r.relative, list.power) / (option.k + r.rank) as value
    from retrieved r
    join list using (name)
    cross join option
  ),
  fused as materialized (
    select id, sum(value) as rrf,
      max(iif(name = 'frontmatter', rank, null)) as frontmatter_rank,
      max(iif(name = 'frontmatter', score, null)) as frontmatter_score,
      max(iif(name = 'frontmatter', value, null)) as frontmatter_contribution,
      max(iif(name = 'words', rank, null)) as words_rank,
      max(iif(name = 'words', score, null)) as words_score,
      max(iif(name = 'words', value, null)) as words_contribution,
      max(iif(name = 'vectors', rank, null)) as vectors_rank,
      max(iif(name = 'vectors', score, null)) as vectors_score,
      max(iif(name = 'vectors', value, null)) as vectors_contribution,
      coalesce(max(iif(name = 'vectors', question_id, null)), max(question_id)) as question_id
    from contribution
    group by id
    having max(enters)
  ),

  -- Type and age ---------------------------------------------------------------------------------------------------
  ranked as materialized (
    select f.*, d.path, d.title, d.tags, d.type, d.topic, d.updated,
      coalesce(r.weight, 1.0) as type_weight,
      -- half-life decay; a date in the future is of age 0, no date does not decay
      iif(r.half_life_days is null or d.updated is null or option.is_dated, 1.0,
        max(r.floor, exp(-ln(2) * max(0.0, option.now - julianday(d.updated)) / r.half_life_days))) as recency
    from option
    cross join fused f
    cross join document d on d.id = f.id
    left join ranking r on r.type = d.type
  ),
  best as materialized (
    select *, rrf * type_weight * recency as score,
      -- of equals, the one that has the words
      row_number() over (order by rrf * type_weight * recency desc, words_rank is null, path) as rank,
      row_number() over (order by rrf * type_weight desc, words_rank is null, path) as rank_without_age
    from ranked
  )

select
  b.rank, b.path, b.title, b.tags, b.type, b.topic, b.updated, b.score,
  b.frontmatter_rank, b.frontmatter_score, b.frontmatter_contribution,
  b.words_rank, b.words_score, b.words_contribution,
  b.vectors_rank, b.vectors_score, b.vectors_contribution,
  b.type_weight, b.recency, b.rank_without_age,
  b.displaced,
  (select q.text from question q where q.id = b.question_id) as matched_question,
  coalesce(
    (select trim(replace(replace(snippet(document_fts, 4, '**', '**', '…', 24), char(8203), ''), char(10), ' '))
     from document_fts
     where b.words_rank is not null and document_fts match (select expression from match) and rowid = b.id),
    (select trim(replace(substr(d.body, 1, 160), char(10), ' ')) || iif(length(d.body) > 160, '…', '')
     from document d where d.id = b.id)) as snippet
from (
  select best.*, row_limit,
    -- Leaders that are not among the rows for their age alone. (A window, since a second reference to best would double
    -- the statement: SQLite has a limit there.)
    nullif(json_group_array(path) filter (where rank_without_age <= min(3, row_limit) and rank > row_limit) over (), '[]') as displaced
  from option
  cross join best) b
where b.rank <= b.row_limit
order by b.rank;
