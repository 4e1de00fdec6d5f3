/*
 * The same closed loop as rsocket_load.c, in the NATS protocol: request-reply, that is PUB with a reply subject of the
 * caller's inbox, answered by services in one queue group. Only --model request_response, because NATS has no other
 * model with an answer.
 *
 *   caller  -> PUB echo _INBOX.3.17 100\r\n<payload>\r\n        caller 3, request slot 17
 *   service <- MSG echo 1 _INBOX.3.17 100\r\n<payload>\r\n
 *   service -> PUB _INBOX.3.17 100\r\n<payload>\r\n
 *   caller  <- MSG _INBOX.3.17 1 100\r\n<payload>\r\n
 */
#include "common.h"

enum { LINE_BYTES = 4096 }; /* nats-server's own limit of a control line */

struct peer {
    struct connection wire; /* first: epoll hands it back */
    bool is_service;
    bool is_ready; /* PONG came: the subscriptions before the PING are known */
    uint32_t index;
    uint64_t *sent_at_ns; /* of each slot */
    char **lines;         /* of each slot: its PUB line, written once */
    size_t *line_bytes;
};

struct load {
    struct options options;
    struct reactor reactor;
    struct window window;
    struct peer *peers; /* the services, then the callers */
    uint32_t peers_n;
    char *payload; /* --payload-bytes of 'x' and CRLF */
};

/* One word of a control line. */
struct word {
    const char *text;
    size_t length;
};

static void send_bytes(struct load *load, struct peer *peer, const void *bytes, size_t count) {
    buffer_push(&peer->wire.out, bytes, count);
    reactor_mark(&load->reactor, &peer->wire);
}

static void send_text(struct load *load, struct peer *peer, const char *text) {
    send_bytes(load, peer, text, strlen(text));
}

static void begin_request(struct load *load, struct peer *caller, uint32_t slot, uint64_t now) {
    caller->sent_at_ns[slot] = now;
    send_bytes(load, caller, caller->lines[slot], caller->line_bytes[slot]);
    send_bytes(load, caller, load->payload, load->options.payload_bytes + 2);
}

/* Splits "MSG subject sid [reply] bytes" at its spaces; returns how many words there are. */
static int split(const char *line, const char *end, struct word *words, int limit) {
    int count = 0;
    while (line < end && count < limit) {
        const char *space = memchr(line, ' ', (size_t)(end - line));
        if (!space) space = end;
        if (space > line) words[count++] = (struct word){line, (size_t)(space - line)};
        line = space + 1;
    }
    return count;
}

static uint32_t number_of(struct word word) {
    uint32_t number = 0;
    for (size_t at = 0; at < word.length; at++) number = number * 10 + (uint32_t)(word.text[at] - '0');
    return number;
}

/* The answer goes to the reply subject, with the payload of the question and its CRLF. */
static void answer(struct load *load, struct peer *service, struct word reply, struct word bytes, const char *payload) {
    send_text(load, service, "PUB ");
    send_bytes(load, service, reply.text, reply.length);
    send_text(load, service, " ");
    send_bytes(load, service, bytes.text, bytes.length);
    send_text(load, service, "\r\n");
    send_bytes(load, service, payload, number_of(bytes) + 2);
}

static void complete_request(struct load *load, struct peer *caller, struct word subject, uint64_t now) {
    const char *dot = memrchr(subject.text, '.', subject.length);
    if (!dot) die("nats-server sent a message for a subject that is no inbox");
    uint32_t slot = number_of((struct word){dot + 1, (size_t)(subject.text + subject.length - dot - 1)});
    if (slot >= (uint32_t)load->options.in_flight) die("nats-server answered a request that was not sent");
    window_completed(&load->window, caller->sent_at_ns[slot], now);
    begin_request(load, caller, slot, now);
}

/* Handles one operation at `text`; returns its size, or 0 when it is not whole yet. */
static size_t handle_operation(struct load *load, struct peer *peer, const char *text, size_t left, uint64_t now) {
    const char *end = memchr(text, '\n', left);
    if (!end && left > LINE_BYTES) die("nats-server sent a line without an end");
    if (!end) return 0;
    size_t line_bytes = (size_t)(end - text) + 1;
    if (!strncmp(text, "MSG ", 4)) {
        struct word words[4];
        int count = split(text + 4, end - 1, words, 4);
        if (count < 3) die("nats-server sent a MSG of %d words", count);
        size_t size = line_bytes + number_of(words[count - 1]) + 2;
        if (left < size) return 0;
        if (!peer->is_service) complete_request(load, peer, words[0], now);
        else if (count == 4) answer(load, peer, words[2], words[3], end + 1);
        return size;
    }
    if (!strncmp(text, "PING", 4)) send_text(load, peer, "PONG\r\n");
    else if (!strncmp(text, "PONG", 4)) peer->is_ready = true;
    else if (!strncmp(text, "-ERR", 4)) die("nats-server: %.*s", (int)line_bytes - 2, text);
    return line_bytes; /* INFO needs no answer */
}

static void read_peer(struct load *load, struct peer *peer) {
    struct buffer *in = &peer->wire.in;
    size_t taken = 0, size;
    if (connection_read(&peer->wire) < 0)
        die("nats-server closed the connection of a %s", peer->is_service ? "service" : "caller");
    uint64_t now = now_ns();
    while (in->start + taken < in->end) {
        const char *text = (const char *)in->bytes + in->start + taken;
        if (!(size = handle_operation(load, peer, text, in->end - in->start - taken, now))) break;
        taken += size;
    }
    connection_consumed(&peer->wire, taken);
}

static void turn(struct load *load) {
    int ready = reactor_wait(&load->reactor, TURN_NS);
    for (int at = 0; at < ready; at++) {
        struct epoll_event *event = &load->reactor.events[at];
        struct peer *peer = event->data.ptr;
        if (event->events & EPOLLOUT) connection_write(&load->reactor, &peer->wire);
        if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_peer(load, peer);
    }
    if (!reactor_flush(&load->reactor)) die("nats-server closed a connection");
}

static void open_peer(struct load *load, struct peer *peer) {
    char text[128];
    int in_flight = load->options.in_flight;
    connection_open(&load->reactor, &peer->wire, load->options.port);
    send_text(load, peer, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":false}\r\n");
    if (peer->is_service) {
        send_text(load, peer, "SUB echo echoers 1\r\nPING\r\n");
        return;
    }
    snprintf(text, sizeof text, "SUB _INBOX.%u.* 1\r\nPING\r\n", peer->index);
    send_text(load, peer, text);
    peer->sent_at_ns = allocate((size_t)in_flight, sizeof *peer->sent_at_ns);
    peer->lines = allocate((size_t)in_flight, sizeof *peer->lines);
    peer->line_bytes = allocate((size_t)in_flight, sizeof *peer->line_bytes);
    for (int slot = 0; slot < in_flight; slot++) {
        snprintf(text, sizeof text, "PUB echo _INBOX.%u.%d %zu\r\n", peer->index, slot, load->options.payload_bytes);
        peer->lines[slot] = strdup(text);
        peer->line_bytes[slot] = strlen(text);
    }
}

static bool are_all_ready(const struct load *load) {
    for (uint32_t index = 0; index < load->peers_n; index++)
        if (!load->peers[index].is_ready) return false;
    return true;
}

static void connect_peers(struct load *load) {
    uint64_t limit = now_ns() + READY_LIMIT_S * 1000000000ull;
    load->peers_n = (uint32_t)(load->options.services + load->options.connections);
    load->peers = allocate(load->peers_n, sizeof *load->peers);
    for (uint32_t index = 0; index < load->peers_n; index++) {
        load->peers[index].index = index;
        load->peers[index].is_service = index < (uint32_t)load->options.services;
        open_peer(load, &load->peers[index]);
    }
    while (!are_all_ready(load)) {
        turn(load);
        if (now_ns() > limit) die("nats-server did not answer the PING of every connection within %d s", READY_LIMIT_S);
    }
}

int main(int count, char **arguments) {
    struct load *load = allocate(1, sizeof *load);
    load->options = parse_options(count, arguments);
    if (strcmp(load->options.model, "request_response")) die("--model %s: only request_response", load->options.model);
    load->payload = allocate(load->options.payload_bytes + 2, 1);
    memset(load->payload, 'x', load->options.payload_bytes);
    memcpy(load->payload + load->options.payload_bytes, "\r\n", 2);
    reactor_start(&load->reactor);
    connect_peers(load);
    window_start(&load->window, &load->options);
    for (uint32_t index = 0; index < load->peers_n; index++)
        for (int slot = 0; slot < load->options.in_flight && !load->peers[index].is_service; slot++)
            begin_request(load, &load->peers[index], (uint32_t)slot, now_ns());
    if (!reactor_flush(&load->reactor)) die("nats-server closed a connection");
    while (window_goes_on(&load->window, &load->options)) turn(load);
    return 0;
}
