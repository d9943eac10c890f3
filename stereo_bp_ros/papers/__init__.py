"""Programs that repeat papers, beside the product."""
