/*
 * Callers of a Samwise gateway or of samd: each is a ZeroMQ REQ socket that publishes, waits for the answer, and
 * publishes again. What is sent is what samcli sends: version 120, round robin, twelve empty options, no headers.
 *
 * With `--rate` messages begin at their moments, so many a second, on whichever caller is free; a latency counts from the
 * moment at which a message was due.
 */
#include "common.h"

#include <zmq.h>

enum { ANSWER_LIMIT_MS = 10000, IDLE_MS = 100 };

struct caller {
    void *socket;
    uint64_t sent_at_ns; /* or was due; 0: none is under way */
};

struct load {
    struct options options;
    struct window window;
    struct caller *callers;
    zmq_pollitem_t *polled;
    uint8_t *payload;
    uint64_t begun_at_ns, begun_n;
};

static void send_frame(void *socket, const void *bytes, size_t count, bool is_last) {
    if (zmq_send(socket, bytes, count, is_last ? 0 : ZMQ_SNDMORE) < 0) die("zmq_send: %s", zmq_strerror(zmq_errno()));
}

static void send_text(void *socket, const char *text, bool is_last) {
    send_frame(socket, text, strlen(text), is_last);
}

static void publish(struct load *load, struct caller *caller, uint64_t sent_at_ns) {
    static const char *const first[] = {"120", "publish", "round robin", "amq.direct", "bench", "0", "0", "12"};
    load->begun_n++;
    caller->sent_at_ns = sent_at_ns;
    for (size_t at = 0; at < sizeof first / sizeof *first; at++) send_text(caller->socket, first[at], false);
    for (int option = 0; option < 12; option++) send_text(caller->socket, "", false);
    send_text(caller->socket, "0", false);
    send_frame(caller->socket, load->payload, load->options.payload_bytes, true);
}

/* Reads an answer; the end of the program if it is not 0. */
static void read_answer(struct caller *caller) {
    char state[8] = "", text[256] = "";
    int length = zmq_recv(caller->socket, state, sizeof state - 1, 0);
    if (length < 0) die("no answer within %d s: %s", ANSWER_LIMIT_MS / 1000, zmq_strerror(zmq_errno()));
    if (zmq_recv(caller->socket, text, sizeof text - 1, 0) < 0) die("zmq_recv: %s", zmq_strerror(zmq_errno()));
    if (strcmp(state, "0")) die("refused: %s %s", state, text);
}

static void open_callers(struct load *load) {
    size_t callers_n = (size_t)load->options.connections;
    int wait_ms = ANSWER_LIMIT_MS, linger_ms = 0;
    void *context = zmq_ctx_new();
    load->callers = allocate(callers_n, sizeof *load->callers);
    load->polled = allocate(callers_n, sizeof *load->polled);
    for (size_t at = 0; at < callers_n; at++) {
        struct caller *caller = &load->callers[at];
        caller->socket = zmq_socket(context, ZMQ_REQ);
        zmq_setsockopt(caller->socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
        zmq_setsockopt(caller->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        if (zmq_connect(caller->socket, load->options.endpoint))
            die("%s: %s", load->options.endpoint, zmq_strerror(zmq_errno()));
        load->polled[at] = (zmq_pollitem_t){.socket = caller->socket, .events = ZMQ_POLLIN};
        send_text(caller->socket, "120", false); /* a ping: the connection is there when it is answered */
        send_text(caller->socket, "ping", true);
    }
    for (size_t at = 0; at < callers_n; at++) read_answer(&load->callers[at]);
}

/* When the next message is due; it may be past. */
static uint64_t due_at_ns(const struct load *load) {
    return load->begun_at_ns + load->begun_n * 1000000000u / (uint64_t)load->options.rate;
}

/* Begins on callers that are free what is due by now; how many milliseconds to wait for the next: one at least, or this
   would take a whole CPU from those who are measured. What it is late by is in the time of the answer. */
static long begin_due(struct load *load) {
    int next = 0;
    for (uint64_t due_ns; (due_ns = due_at_ns(load)) <= now_ns();) {
        while (next < load->options.connections && load->callers[next].sent_at_ns) next++;
        if (next == load->options.connections) return IDLE_MS;
        publish(load, &load->callers[next], due_ns);
    }
    uint64_t now = now_ns(), due_ns = due_at_ns(load);
    return due_ns > now ? (long)((due_ns - now + 999999u) / 1000000u) : 0;
}

int main(int count, char **arguments) {
    struct load load = {.options = parse_options(count, arguments)};
    if (!load.options.endpoint) die("--endpoint is needed");
    load.payload = allocate(1, load.options.payload_bytes);
    open_callers(&load);
    load.begun_at_ns = now_ns();
    if (!load.options.rate)
        for (int at = 0; at < load.options.connections; at++) publish(&load, &load.callers[at], now_ns());
    for (window_start(&load.window, &load.options); window_goes_on(&load.window, &load.options);) {
        long wait_ms = load.options.rate ? begin_due(&load) : IDLE_MS;
        if (zmq_poll(load.polled, load.options.connections, wait_ms) < 0) die("zmq_poll: %s", zmq_strerror(zmq_errno()));
        for (int at = 0; at < load.options.connections; at++) {
            struct caller *caller = &load.callers[at];
            if (!(load.polled[at].revents & ZMQ_POLLIN)) continue;
            read_answer(caller);
            uint64_t now = now_ns();
            window_completed(&load.window, caller->sent_at_ns, now);
            caller->sent_at_ns = 0;
            if (!load.options.rate) publish(&load, caller, now);
        }
    }
    /* Those under way are stored, too: each is waited for, so that whoever counts knows how many there are. */
    for (int at = 0; at < load.options.connections; at++) {
        if (load.callers[at].sent_at_ns) read_answer(&load.callers[at]);
    }
    return 0;
}
