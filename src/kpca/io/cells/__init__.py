"""Files of single cells, as AnnData stores them."""
