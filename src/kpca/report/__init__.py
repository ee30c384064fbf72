"""One page of HTML about a fitted model and its data; it opens from the disk and needs no network."""
