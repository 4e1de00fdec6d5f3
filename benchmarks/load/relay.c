/*
 * The floor of the comparison: a relay that takes REQUEST_RESPONSE frames of any connection to the one service, and
 * the answers back, and does nothing else. It rewrites the stream id and forwards the bytes; no tags, no table of
 * routes, no limits, no checks. What a broker costs beyond this is what it does beyond this.
 *
 *   relay --port 0          prints "listening tcp://127.0.0.1:PORT" and runs until it is killed
 *   relay --port 0 --echo   answers requests itself: what a caller has who needs no broker
 */
#include "frames.h"

struct peer {
    struct connection wire; /* first: epoll hands it back */
};

/* A request on its way: whose it is and which id it has there. */
struct request {
    struct peer *caller;
    uint32_t caller_stream_id;
};

struct relay {
    struct reactor reactor;
    struct connection listener;
    bool is_echo;
    struct peer *service;     /* the last connection that said in its SETUP that it is "echo"; NULL before */
    uint32_t last_id;         /* towards the service */
    struct id_map open_ids;   /* ids towards the service -> slot in `requests` */
    struct request *requests; /* grows; slots that are free again are listed in `free_slots` */
    uint32_t *free_slots, free_n, requests_n;
};

static void listen_on(struct relay *relay, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t size = sizeof address;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, 1024)) die("port %d: %s", port, strerror(errno));
    getsockname(fd, (struct sockaddr *)&address, &size);
    reactor_add(&relay->reactor, &relay->listener, fd);
    printf("listening tcp://127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
}

static void accept_peer(struct relay *relay) {
    int fd = accept(relay->listener.fd, NULL, NULL);
    if (fd < 0) return;
    struct peer *peer = allocate(1, sizeof *peer);
    reactor_add(&relay->reactor, &peer->wire, fd);
}

static uint32_t take_slot(struct relay *relay) {
    if (relay->free_n) return relay->free_slots[--relay->free_n];
    uint32_t slot = relay->requests_n++;
    if ((slot & (slot - 1)) == 0) { /* a power of two: the arrays are full */
        relay->requests = reallocate(relay->requests, (slot ? slot * 2 : 1) * sizeof *relay->requests);
        relay->free_slots = reallocate(relay->free_slots, (slot ? slot * 2 : 1) * sizeof *relay->free_slots);
    }
    return slot;
}

static void forward(struct relay *relay, struct peer *to, uint32_t stream_id, struct frame *frame) {
    put_u32(frame->bytes + LENGTH_BYTES, stream_id);
    buffer_push(&to->wire.out, frame->bytes, frame->size);
    reactor_mark(&relay->reactor, &to->wire);
}

/* Answers with the data of the request. */
static void echo(struct relay *relay, struct peer *caller, const struct frame *frame) {
    size_t data_at = FRAME_OVERHEAD;
    uint8_t header[FRAME_OVERHEAD];
    if (frame->flags & FLAG_METADATA) data_at += LENGTH_BYTES + u24_at(frame->bytes + FRAME_OVERHEAD);
    if (data_at > frame->size) die("a request has metadata that is longer than its frame");
    put_header(header, frame->stream_id, PAYLOAD, FLAG_NEXT | FLAG_COMPLETE, frame->size - data_at);
    buffer_push(&caller->wire.out, header, sizeof header);
    buffer_push(&caller->wire.out, frame->bytes + data_at, frame->size - data_at);
    reactor_mark(&relay->reactor, &caller->wire);
}

static void forward_request(struct relay *relay, struct peer *caller, struct frame *frame) {
    if (!relay->service) return;
    uint32_t slot = take_slot(relay), id = next_stream_id(&relay->open_ids, &relay->last_id);
    relay->requests[slot] = (struct request){caller, frame->stream_id};
    id_map_put(&relay->open_ids, id, slot);
    forward(relay, relay->service, id, frame);
}

static void forward_answer(struct relay *relay, struct frame *frame) {
    int64_t slot = id_map_find(&relay->open_ids, frame->stream_id);
    if (slot < 0) return;
    struct request *request = &relay->requests[slot];
    id_map_remove(&relay->open_ids, frame->stream_id);
    relay->free_slots[relay->free_n++] = (uint32_t)slot;
    if (request->caller) forward(relay, request->caller, request->caller_stream_id, frame);
}

static void handle_frame(struct relay *relay, struct peer *peer, struct frame *frame) {
    switch (frame->type) {
    case REQUEST_RESPONSE:
        if (relay->is_echo) echo(relay, peer, frame);
        else forward_request(relay, peer, frame);
        break;
    case PAYLOAD:
    case ERROR: forward_answer(relay, frame); break;
    case SETUP:
        if (memmem(frame->bytes, frame->size, "\x04" "echo", 5)) relay->service = peer;
        break;
    case KEEPALIVE:
        if (frame->flags & FLAG_RESPOND) {
            frame->bytes[8] &= (uint8_t)~FLAG_RESPOND;
            forward(relay, peer, 0, frame);
        }
        break;
    default: break;
    }
}

/* Nothing may be sent to a lost peer: its requests lose their owner. The few bytes of the peer itself stay. */
static void forget_peer(struct relay *relay, struct peer *peer) {
    for (uint32_t slot = 0; slot < relay->requests_n; slot++)
        if (relay->requests[slot].caller == peer) relay->requests[slot].caller = NULL;
    if (relay->service == peer) relay->service = NULL;
    close(peer->wire.fd);
    peer->wire.fd = -1;
}

static void read_peer(struct relay *relay, struct peer *peer) {
    struct frame frame;
    size_t taken = 0;
    if (connection_read(&peer->wire) < 0) {
        forget_peer(relay, peer);
        return;
    }
    while (next_frame(&peer->wire.in, &taken, &frame)) handle_frame(relay, peer, &frame);
    connection_consumed(&peer->wire, taken);
}

int main(int count, char **arguments) {
    struct relay *relay = allocate(1, sizeof *relay);
    relay->is_echo = count == 4 && !strcmp(arguments[3], "--echo");
    if ((count != 3 && !relay->is_echo) || strcmp(arguments[1], "--port"))
        die("usage: relay --port PORT [--echo] (0: any free port)");
    reactor_start(&relay->reactor);
    id_map_start(&relay->open_ids, 4096);
    listen_on(relay, (int)number_option("port", arguments[2], 0, 65535));
    for (;;) {
        int ready = reactor_wait(&relay->reactor, TURN_NS);
        for (int at = 0; at < ready; at++) {
            struct epoll_event *event = &relay->reactor.events[at];
            struct connection *connection = event->data.ptr;
            if (connection == &relay->listener) {
                accept_peer(relay);
                continue;
            }
            if (event->events & EPOLLOUT) connection_write(&relay->reactor, connection);
            if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_peer(relay, (struct peer *)connection);
        }
        reactor_flush(&relay->reactor); /* a peer that is gone is noticed by its read */
    }
}
