create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
  insert into t select i, 'row ' || (i * 7919 % 100003), i * 0.5 from n;
create index u on t(b);
select count(*), sum(c) from t where b > 'row 5';
select substr(b, 1, 6), avg(c) from t group by 1 order by 2 limit 5;
