"""Where tasks come from: files, a hub, a model; and how they are split. Used by `dataloader`."""
