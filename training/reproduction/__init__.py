"""The paper's tables, trained and judged again: one command each, at a scale for one CPU or as the paper has them."""
