"""All-reduce schedules fitted to a cluster: a linear program packs trees so that links carry as much as they can."""
