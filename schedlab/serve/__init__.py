"""The HTTP server: OpenAI's completions and chat on top of a scheduler that runs on a thread of its own.

Nothing here is imported before `schedlab serve` asks for it; fastapi and uvicorn come with the extra `serve`.
"""
