"""What `worker/http.py` is made of: the transport, the judgement of addresses, the safe fetch."""
