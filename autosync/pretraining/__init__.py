"""Training of a simulator on the user's own records: the implementation of `autosync pretrain`."""
