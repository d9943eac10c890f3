"""What the papers print, cell by cell: data only, one module per paper."""
