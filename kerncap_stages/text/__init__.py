"""Facts as words for people: sizes, counts, names of kernels, text that is fit for a terminal."""
