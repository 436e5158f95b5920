"""`heaptape workloads`: the recipes of workloads/, read from recipes.toml there. Not yet: the file is the other folder's to bring."""
