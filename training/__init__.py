"""Label store or simulator in, trained and evaluated world model out."""
