"""Who may do what with the REST API: roles, tokens, and the token of this machine."""
