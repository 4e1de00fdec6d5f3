"""Programs that measure the broker and its neighbours; see README.md in this folder for the method."""
