"""`schedlab serve`: from options to a scheduler on a device, and the server around it."""
