/* Hands a message over to a Samwise gateway, which delivers it. Needs libzmq and nothing else.
 *
 *     cc send.c -o send -lzmq
 *     ./send ipc:///run/rsocket-broker/samwise orders create "a book"
 *
 * The exit status is 0 when the message is stored, 1 when it is refused, 3 when no answer came: it may be stored then. */
#include <stdio.h>
#include <string.h>
#include <zmq.h>

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: send ENDPOINT EXCHANGE ROUTING_KEY TEXT\n");
        return 2;
    }
    void *gateway = zmq_socket(zmq_ctx_new(), ZMQ_REQ);
    int wait_ms = 5000; /* for an answer; without it zmq_recv waits for ever */
    zmq_setsockopt(gateway, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    if (zmq_connect(gateway, argv[1])) {
        fprintf(stderr, "send: %s: %s\n", argv[1], zmq_strerror(zmq_errno()));
        return 2;
    }
    const char *frames[] = {"100", "publish", "round robin", argv[2], argv[3], argv[4]};
    for (int i = 0; i < 6; i++)
        zmq_send(gateway, frames[i], strlen(frames[i]), i < 5 ? ZMQ_SNDMORE : 0);

    char state[3] = "", reason[512] = ""; /* "0", or "-1" and a frame that says why */
    if (zmq_recv(gateway, state, sizeof state - 1, 0) < 0) {
        fprintf(stderr, "send: no answer: %s\n", zmq_strerror(zmq_errno()));
        return 3;
    }
    if (strcmp(state, "0") != 0) {
        zmq_recv(gateway, reason, sizeof reason - 1, 0);
        fprintf(stderr, "send: refused: %s\n", reason);
        return 1;
    }
    return 0;
}
