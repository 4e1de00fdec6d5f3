"""Programs on the client SDK that let others in who speak no RSocket."""
