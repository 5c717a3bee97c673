-- Diversity: chooses from a ranked list the notes that add most to those chosen before, by maximal marginal relevance
-- (Carbonell and Goldstein, 1998). For an agent that fills its context window and wants no note twice in other words.
-- Needs the sqlite-vec extension.
--
--   :hits     JSON: [[path, score], …], best first, as search.sql gives them; more than are wanted, 50 say
--   :lambda   1: relevance alone, 0: diversity alone; NULL: 0.5
--   :limit    how many to choose; NULL: 10
--
-- next = the hit with the greatest  lambda * relevance - (1 - lambda) * greatest cosine to a note chosen before
--
-- relevance is the score, from 0 for the last of the hits to 1 for the best. Two notes are as near as the nearest two of
-- their passages. A note without vectors is near nothing.
with recursive
  given (place, path, score) as materialized (
    select key, value ->> 0, value ->> 1 from json_each(:hits)
  ),
  hit (place, id, path, relevance) as materialized (
    select g.place, d.id, g.path,
      iif(max(g.score) over () > min(g.score) over (),
        (g.score - min(g.score) over ()) / (max(g.score) over () - min(g.score) over ()), 1.0)
    from given g
    join document d on d.path = g.path
  ),
  passage (id, embedding) as materialized (
    select h.id, e.embedding
    from hit h
    join document d on d.id = h.id
    join document_embedding e on e.document_id = d.id and e.content_hash = d.content_hash
      and e.model = (select value from setting where name = 'model') and e.seq < 16
  ),
  near (id, other, cosine) as materialized (
    select a.id, b.id, max(1 - vec_distance_cosine(a.embedding, b.embedding))
    from passage a
    join passage b on b.id <> a.id
    group by a.id, b.id
  ),
  chosen (n, id, before) as (
    select 1, (select id from hit order by place limit 1), '[]' where coalesce(:limit, 10) > 0
    union all
    select n + 1,
      (select h.id
       from hit h
       where h.id <> c.id and h.id not in (select value from json_each(c.before))
       order by coalesce(:lambda, 0.5) * h.relevance - (1 - coalesce(:lambda, 0.5)) * coalesce((
           select max(cosine) from near
           where near.id = h.id and (other = c.id or other in (select value from json_each(c.before)))), 0.0) desc,
         h.place
       limit 1),
      json_insert(c.before, '$[#]', c.id)
    from chosen c
    where c.id is not null and n < coalesce(:limit, 10)
  )
select c.n as rank, h.path, h.relevance, h.place + 1 as was
from chosen c
join hit h on h.id = c.id
order by c.n;
