"""The host of extensions: finding them, loading them, and the api through which they register."""
