"""Programs as users write them, with contracts."""
