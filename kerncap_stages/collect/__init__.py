"""The collector: runs a program with a capture library inside, and takes in what the library sends."""
