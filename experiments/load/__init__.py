"""`schedlab bench`: a trace against a server that speaks OpenAI's API, measured from the client's side."""
