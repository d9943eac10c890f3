"""SAD with the data-streaming variants of Pudpai, Kim & Liu."""
