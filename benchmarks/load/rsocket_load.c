/*
 * One process that is all the callers and the echoing services of an RSocket broker, in a closed loop: every connection
 * of a caller has `--in-flight` requests open, and each completed one is followed by the next at once.
 *
 *   rsocket_load --port 7878 --model request_response --connections 16 --in-flight 64 --cpu-of $(pidof broker)
 *
 * With `--rate` the loop is open as long as there is room: requests begin at their moments, so many a second, evenly and
 * in turn over the connections, and a latency counts from that moment on, also when all that may be in flight are.
 *
 *   model              a request is complete when           an item is
 *   request_response   its answer is here                   -
 *   fire_and_forget    it is at the service (every copy)    -
 *   metadata_push      it is at the service (every copy)    -
 *   request_stream     the stream is complete               each PAYLOAD that the caller gets, --items per service
 *   request_channel    both halves are complete             each PAYLOAD that the caller gets, --items per service
 *
 * Callers and services live in one process, so that what has no answer is counted where it arrives: the last bytes of
 * its payload name the caller and the request. Streams and channels obey REQUEST_N on both sides; an item beyond the
 * credit that was given is counted as an error.
 *
 * It must be cheaper than any broker: no memory is taken per request, each socket is read once and written once per
 * loop turn, and metadata is encoded once, before the start.
 */
#include "frames.h"

enum { MARK_BYTES = 8, MAX_METADATA_BYTES = 1024, SERVICE_NAME_LENGTH = 4 };

#define SERVICE_NAME "echo"
#define CALLER_NAME "load"
#define COMPOSITE_MIME "message/x.rsocket.composite-metadata.v0"
#define OCTET_MIME "application/octet-stream"
#define OCTET_WELL_KNOWN 0x86 /* the same mime type as an entry of composite metadata */

enum {
    BROKER_ROUTE_SETUP = 1,
    BROKER_ADDRESS = 5,
    ADDRESS_UNICAST = 0x80,
    ADDRESS_MULTICAST = 0x40,
    ADDRESS_SHARD = 0x20,
    KEY_SERVICE_NAME = 0x01,
    KEY_SHARD_KEY = 0x1B,
    WELL_KNOWN = 0x80, /* first bit of a key byte */
    MORE = 0x80,       /* first bit of a value byte: another entry follows */
};

/* One open request of a caller, or one open stream of a service. */
struct stream {
    uint32_t id;
    uint32_t to_send;   /* items that this side still has to send; a service's grow as channel items arrive */
    uint32_t credit;    /* items that this side may send now */
    uint32_t awaited;   /* items that the other side may still send on the credit we gave */
    uint32_t received;  /* items since we gave credit last */
    uint32_t copies;    /* arrivals that are still missing (fire_and_forget, metadata_push) */
    bool is_other_done; /* the other side sent its last item: after ours the stream is complete */
    uint64_t sent_at_ns;
};

struct peer {
    struct connection wire; /* first: epoll hands it back */
    bool is_service;
    bool is_ready; /* the broker answered the KEEPALIVE behind our SETUP */
    uint32_t index;
    uint32_t last_id;       /* caller: of the last request */
    struct id_map open_ids; /* stream id -> slot */
    struct stream *streams; /* caller: --in-flight slots; service: grows, free ones are listed in `free_slots` */
    uint32_t *free_slots, free_n, streams_n; /* a caller's slots are in use all the time unless there is a `--rate` */
};

struct load {
    struct options options;
    struct reactor reactor;
    struct window window;
    enum frame_type request_type;
    uint32_t copies;    /* services that get each fire_and_forget and metadata_push */
    struct peer *peers; /* the services, then the callers */
    uint32_t peers_n;
    uint8_t **requests; /* encoded, one per shard key, sent in turn; id and mark are patched in the output */
    size_t *request_bytes;
    uint32_t requests_n, next_request;
    uint64_t begun_at_ns, begun_n; /* with --rate: the moment of the first request, and how many have begun */
    uint32_t next_caller;
    uint8_t *payload; /* --payload-bytes of 'x' */
};

static void send_bytes(struct load *load, struct peer *peer, const void *bytes, size_t count) {
    buffer_push(&peer->wire.out, bytes, count);
    reactor_mark(&load->reactor, &peer->wire);
}

/* -- encoding, before the start ----------------------------------------------------------------------------------- */

static uint8_t *put_broker_header(uint8_t *at, unsigned kind, unsigned flags) {
    at = put_u32(at, 1); /* version 0.1 */
    return put_u16(at, kind << 10 | flags);
}

/* 16 bytes that no other peer of this or another running generator has. */
static uint8_t *put_route_id(uint8_t *at, uint32_t index) {
    at = put_bytes(at, "rsb-bench", 9);
    at = put_u24(at, index);
    return put_u32(at, (uint32_t)getpid());
}

static uint8_t *put_short_text(uint8_t *at, unsigned more, const char *text) {
    *at++ = (uint8_t)(more | strlen(text));
    return put_bytes(at, text, strlen(text));
}

/* An entry of composite metadata with a mime type in letters: length - 1, the letters, u24 length, the content. */
static uint8_t *put_entry(uint8_t *at, const char *mime, const uint8_t *content, size_t bytes) {
    *at++ = (uint8_t)(strlen(mime) - 1);
    at = put_bytes(at, mime, strlen(mime));
    at = put_u24(at, (uint32_t)bytes);
    return put_bytes(at, content, bytes);
}

/* SETUP with a ROUTE_SETUP, and a KEEPALIVE whose answer tells that the broker has read both. */
static void send_opening(struct load *load, struct peer *peer) {
    uint8_t route[128], metadata[512], frame[1024];
    uint8_t *end = put_broker_header(route, BROKER_ROUTE_SETUP, 0);
    end = put_route_id(end, peer->index);
    end = put_short_text(end, 0, peer->is_service ? SERVICE_NAME : CALLER_NAME);
    size_t metadata_bytes = (size_t)(put_entry(metadata, load->options.mime, route, (size_t)(end - route)) - metadata);

    end = put_header(frame, 0, SETUP, FLAG_METADATA, 0);
    end = put_u32(end, 0x00010000); /* RSocket 1.0 */
    end = put_u32(end, 20000000);   /* keepalive every 5.5 hours: none of ours comes into the window */
    end = put_u32(end, 90000000);   /* lifetime, ms */
    end = put_short_text(end, 0, COMPOSITE_MIME);
    end = put_short_text(end, 0, OCTET_MIME);
    end = put_u24(end, (uint32_t)metadata_bytes);
    end = put_bytes(end, metadata, metadata_bytes);
    put_u24(frame, (uint32_t)(end - frame - LENGTH_BYTES));
    end = put_header(end, 0, KEEPALIVE, FLAG_RESPOND, 8);
    end = put_u32(put_u32(end, 0), 0); /* last received position: we do not resume */
    send_bytes(load, peer, frame, (size_t)(end - frame));
}

/*
 * unicast, multicast   one map: {ServiceName: echo}
 * shard                two maps: {ShardKey: user} and {ServiceName: echo, user: u0007}
 */
static uint8_t *put_address(uint8_t *at, const char *routing, uint32_t key) {
    bool is_shard = !strcmp(routing, "shard"), is_multicast = !strcmp(routing, "multicast");
    unsigned flags = is_shard ? ADDRESS_SHARD : is_multicast ? ADDRESS_MULTICAST : ADDRESS_UNICAST;
    at = put_broker_header(at, BROKER_ADDRESS, flags);
    at = put_route_id(at, 0xffffff);
    if (is_shard) {
        *at++ = WELL_KNOWN | KEY_SHARD_KEY;
        at = put_short_text(at, 0, "user");
    }
    *at++ = WELL_KNOWN | KEY_SERVICE_NAME;
    at = put_short_text(at, is_shard ? MORE : 0, SERVICE_NAME);
    if (is_shard) {
        char user[8];
        snprintf(user, sizeof user, "u%04u", key % 10000);
        at = put_short_text(at, 0, "user");
        at = put_short_text(at, 0, user);
    }
    return at;
}

/* The request that is sent again and again; returns its size and leaves the frame in `*bytes`. */
static size_t encode_request(const struct load *load, uint32_t key, uint8_t **bytes) {
    const struct options *options = &load->options;
    bool is_push = load->request_type == METADATA_PUSH;
    bool has_credit = load->request_type == REQUEST_STREAM || load->request_type == REQUEST_CHANNEL;
    uint8_t address[256], metadata[MAX_METADATA_BYTES];
    size_t address_bytes = (size_t)(put_address(address, options->routing, key) - address);
    uint8_t *metadata_end = put_entry(metadata, options->mime, address, address_bytes);
    if (is_push) { /* it has no data: the payload is an entry of its own */
        *metadata_end++ = OCTET_WELL_KNOWN;
        metadata_end = put_u24(metadata_end, (uint32_t)options->payload_bytes);
    }
    size_t metadata_bytes = (size_t)(metadata_end - metadata);
    unsigned flags = FLAG_METADATA;
    if (load->request_type == REQUEST_CHANNEL && options->items == 1) flags |= FLAG_COMPLETE;

    uint8_t *frame = allocate(1, FRAME_OVERHEAD + 8 + metadata_bytes + options->payload_bytes);
    uint8_t *at = put_header(frame, 0, load->request_type, flags, 0);
    if (has_credit) at = put_u32(at, (uint32_t)options->credit);
    if (!is_push) at = put_u24(at, (uint32_t)metadata_bytes);
    at = put_bytes(at, metadata, metadata_bytes);
    at = put_bytes(at, load->payload, options->payload_bytes);
    size_t size = (size_t)(at - frame);
    if (size - LENGTH_BYTES > MAX_FRAME_BYTES) die("--payload-bytes %zu: does not fit a frame", options->payload_bytes);
    put_u24(frame, (uint32_t)(size - LENGTH_BYTES));
    *bytes = frame;
    return size;
}

/* -- both sides --------------------------------------------------------------------------------------------------- */

static void send_item(struct load *load, struct peer *peer, uint32_t stream_id, unsigned flags) {
    size_t bytes = load->options.payload_bytes;
    uint8_t *at = buffer_reserve(&peer->wire.out, FRAME_OVERHEAD + bytes);
    at = put_header(at, stream_id, PAYLOAD, flags, bytes);
    put_bytes(at, load->payload, bytes);
    peer->wire.out.end += FRAME_OVERHEAD + bytes;
}

/* Sends what the credit allows; the last item completes this side's half when nothing can follow. */
static void pump(struct load *load, struct peer *peer, struct stream *stream) {
    bool is_ending = !peer->is_service || stream->is_other_done;
    if (!stream->credit || !stream->to_send) return;
    while (stream->credit && stream->to_send) {
        stream->credit--;
        stream->to_send--;
        send_item(load, peer, stream->id, FLAG_NEXT | (is_ending && !stream->to_send ? FLAG_COMPLETE : 0));
    }
    reactor_mark(&load->reactor, &peer->wire);
}

static void send_request_n(struct load *load, struct peer *peer, struct stream *stream, uint32_t credit_n) {
    uint8_t frame[FRAME_OVERHEAD + 4];
    put_u32(put_header(frame, stream->id, REQUEST_N, 0, 4), credit_n);
    send_bytes(load, peer, frame, sizeof frame);
    stream->awaited += credit_n;
}

/* Counts an item that came, and gives credit again when half of it is used. */
static void receive_item(struct load *load, struct peer *peer, struct stream *stream, bool is_last) {
    if (stream->awaited) stream->awaited--;
    else load->window.errors++; /* more than was asked for */
    if (++stream->received < (uint32_t)load->options.credit / 2 || is_last) return;
    send_request_n(load, peer, stream, stream->received);
    stream->received = 0;
}

/* Credits add up, at most to 2^31 - 1. */
static void add_credit(struct stream *stream, uint32_t credit_n) {
    stream->credit = credit_n > MAX_STREAM_ID - stream->credit ? MAX_STREAM_ID : stream->credit + credit_n;
}

static struct stream *find_stream(struct peer *peer, uint32_t id) {
    int64_t slot = id_map_find(&peer->open_ids, id);
    return slot < 0 ? NULL : &peer->streams[slot];
}

static void handle_stream_zero(struct load *load, struct peer *peer, struct frame *frame) {
    int bytes;
    const char *text = error_text(frame, &bytes);
    if (frame->type == ERROR) die("the broker ended the connection: %.*s", bytes, text);
    if (frame->type != KEEPALIVE) return;
    if (frame->flags & FLAG_RESPOND) {
        frame->bytes[8] &= (uint8_t)~FLAG_RESPOND;
        send_bytes(load, peer, frame->bytes, frame->size);
    } else {
        peer->is_ready = true;
    }
}

/* -- the caller --------------------------------------------------------------------------------------------------- */

/* Sends the next request from this slot. */
static void begin_request(struct load *load, struct peer *caller, uint32_t slot, uint64_t now) {
    uint32_t which = load->next_request, id = next_stream_id(&caller->open_ids, &caller->last_id);
    load->next_request = which + 1 == load->requests_n ? 0 : which + 1;
    caller->streams[slot] = (struct stream){
        .id = id, .to_send = (uint32_t)load->options.items - 1, .awaited = (uint32_t)load->options.credit,
        .copies = load->copies, .sent_at_ns = now,
    };
    id_map_put(&caller->open_ids, id, slot);
    size_t bytes = load->request_bytes[which];
    uint8_t *frame = buffer_push(&caller->wire.out, load->requests[which], bytes);
    if (load->request_type != METADATA_PUSH) put_u32(frame + LENGTH_BYTES, id);
    if (load->request_type == METADATA_PUSH || load->request_type == REQUEST_FNF)
        put_u32(put_u32(frame + bytes - MARK_BYTES, caller->index), id);
    reactor_mark(&load->reactor, &caller->wire);
}

static void end_request(struct load *load, struct peer *caller, struct stream *stream, uint64_t now) {
    uint32_t slot = (uint32_t)(stream - caller->streams);
    id_map_remove(&caller->open_ids, stream->id);
    if (load->options.rate) caller->free_slots[caller->free_n++] = slot;
    else begin_request(load, caller, slot, now);
}

/* The next caller with a free slot, in turn; NULL when there is none. */
static struct peer *find_free_caller(struct load *load) {
    uint32_t services = (uint32_t)load->options.services, callers = (uint32_t)load->options.connections;
    for (uint32_t tried = 0; tried < callers; tried++) {
        struct peer *caller = &load->peers[services + load->next_caller];
        load->next_caller = load->next_caller + 1 == callers ? 0 : load->next_caller + 1;
        if (caller->free_n) return caller;
    }
    return NULL;
}

static uint64_t due_at_ns(const struct load *load) {
    return load->begun_at_ns + load->begun_n * 1000000000u / (uint64_t)load->options.rate;
}

/* Begins the requests whose moment has come; nanoseconds until the next one's. */
static uint64_t begin_due_requests(struct load *load) {
    for (uint64_t now = now_ns(), due; (due = due_at_ns(load)) <= now; load->begun_n++) {
        struct peer *caller = find_free_caller(load);
        if (!caller) return TURN_NS; /* it begins late, when another one is complete */
        begin_request(load, caller, caller->free_slots[--caller->free_n], due);
    }
    uint64_t now = now_ns(), due = due_at_ns(load);
    return due > now ? due - now : 0;
}

static void complete_request(struct load *load, struct peer *caller, struct stream *stream, uint64_t now) {
    window_completed(&load->window, stream->sent_at_ns, now);
    end_request(load, caller, stream, now);
}

static void fail_request(struct load *load, struct peer *caller, struct stream *stream, const struct frame *frame,
                         uint64_t now) {
    struct window *window = &load->window;
    int bytes;
    const char *text = error_text(frame, &bytes);
    if (window->errors++ == 0) fprintf(stderr, "first error: %.*s\n", bytes, text);
    if (window->errors > 1000 && !window->requests) die("1000 errors and no answer: stopped");
    end_request(load, caller, stream, now);
}

static void handle_caller_payload(struct load *load, struct peer *caller, struct stream *stream,
                                  const struct frame *frame, uint64_t now) {
    if (load->request_type == REQUEST_RESPONSE) {
        complete_request(load, caller, stream, now);
        return;
    }
    bool is_last = frame->flags & FLAG_COMPLETE;
    if (frame->flags & FLAG_NEXT) {
        window_item(&load->window, now);
        receive_item(load, caller, stream, is_last);
    }
    if (!is_last) return;
    if (load->request_type == REQUEST_CHANNEL && stream->to_send) /* the services left early: our half ends, too */
        send_item(load, caller, stream->id, FLAG_COMPLETE);
    complete_request(load, caller, stream, now);
}

static void handle_caller_frame(struct load *load, struct peer *caller, struct frame *frame, uint64_t now) {
    struct stream *stream = find_stream(caller, frame->stream_id);
    if (!stream) return;
    switch (frame->type) {
    case PAYLOAD: handle_caller_payload(load, caller, stream, frame, now); break;
    case REQUEST_N:
        add_credit(stream, credit_of(frame));
        pump(load, caller, stream);
        break;
    case ERROR: fail_request(load, caller, stream, frame, now); break;
    default: break;
    }
}

/* -- the service -------------------------------------------------------------------------------------------------- */

static struct stream *open_stream(struct peer *service, uint32_t id) {
    uint32_t slot;
    if (service->free_n) {
        slot = service->free_slots[--service->free_n];
    } else {
        slot = service->streams_n++;
        if ((slot & (slot - 1)) == 0) { /* a power of two: the arrays are full */
            size_t count = slot ? (size_t)slot * 2 : 1;
            service->streams = reallocate(service->streams, count * sizeof *service->streams);
            service->free_slots = reallocate(service->free_slots, count * sizeof *service->free_slots);
        }
    }
    id_map_put(&service->open_ids, id, slot);
    service->streams[slot] = (struct stream){.id = id};
    return &service->streams[slot];
}

static void close_stream(struct peer *service, struct stream *stream) {
    id_map_remove(&service->open_ids, stream->id);
    service->free_slots[service->free_n++] = (uint32_t)(stream - service->streams);
}

/* Answers with the data of the request. */
static void echo(struct load *load, struct peer *service, const struct frame *frame) {
    size_t data_at = FRAME_OVERHEAD;
    if (frame->flags & FLAG_METADATA) data_at += LENGTH_BYTES + u24_at(frame->bytes + FRAME_OVERHEAD);
    if (data_at > frame->size) die("the broker sent metadata that is longer than its frame");
    size_t bytes = frame->size - data_at;
    uint8_t *at = buffer_reserve(&service->wire.out, FRAME_OVERHEAD + bytes);
    at = put_header(at, frame->stream_id, PAYLOAD, FLAG_NEXT | FLAG_COMPLETE, bytes);
    put_bytes(at, frame->bytes + data_at, bytes);
    service->wire.out.end += FRAME_OVERHEAD + bytes;
    reactor_mark(&load->reactor, &service->wire);
}

/* What has no answer is complete here. The mark in its last bytes says whose it is. */
static void count_arrival(struct load *load, const struct frame *frame, uint64_t now) {
    const uint8_t *mark = frame->bytes + frame->size - MARK_BYTES;
    uint32_t index = frame->size < FRAME_OVERHEAD + MARK_BYTES ? load->peers_n : u32_at(mark);
    struct peer *caller = index < load->peers_n && !load->peers[index].is_service ? &load->peers[index] : NULL;
    struct stream *stream = caller ? find_stream(caller, u32_at(mark + 4)) : NULL;
    if (!stream) {
        load->window.errors++; /* nobody waits for it: it came twice, or changed on its way */
        return;
    }
    if (--stream->copies == 0) complete_request(load, caller, stream, now);
}

/* The last item of both halves is through. */
static void pump_service(struct load *load, struct peer *service, struct stream *stream) {
    pump(load, service, stream);
    if (stream->is_other_done && !stream->to_send) close_stream(service, stream);
}

static void handle_new_stream(struct load *load, struct peer *service, struct frame *frame) {
    struct stream *stream = open_stream(service, frame->stream_id);
    bool is_stream = frame->type == REQUEST_STREAM;
    stream->credit = credit_of(frame);
    stream->is_other_done = is_stream || frame->flags & FLAG_COMPLETE;
    stream->to_send = is_stream ? (uint32_t)load->options.items : 1; /* the first item of a channel is in its request */
    if (!stream->is_other_done) send_request_n(load, service, stream, (uint32_t)load->options.credit);
    reactor_mark(&load->reactor, &service->wire);
    pump_service(load, service, stream);
}

/* An item of a channel: it is owed back. All items are alike, so that their number is all that has to be kept. */
static void handle_channel_item(struct load *load, struct peer *service, struct stream *stream, struct frame *frame) {
    bool is_last = frame->flags & FLAG_COMPLETE;
    if (is_last) stream->is_other_done = true;
    if (frame->flags & FLAG_NEXT) {
        stream->to_send++;
        receive_item(load, service, stream, is_last);
    }
    if (is_last && !stream->to_send) { /* a bare COMPLETE, everything is echoed */
        uint8_t end[FRAME_OVERHEAD];
        put_header(end, stream->id, PAYLOAD, FLAG_COMPLETE, 0);
        send_bytes(load, service, end, sizeof end);
    }
    pump_service(load, service, stream);
}

static void handle_service_frame(struct load *load, struct peer *service, struct frame *frame, uint64_t now) {
    struct stream *stream;
    switch (frame->type) {
    case REQUEST_RESPONSE: echo(load, service, frame); return;
    case REQUEST_FNF: count_arrival(load, frame, now); return;
    case REQUEST_STREAM:
    case REQUEST_CHANNEL: handle_new_stream(load, service, frame); return;
    default: break;
    }
    if (!(stream = find_stream(service, frame->stream_id))) return; /* cancelled late: its answer is already away */
    if (frame->type == REQUEST_N) {
        add_credit(stream, credit_of(frame));
        pump_service(load, service, stream);
    } else if (frame->type == PAYLOAD) {
        handle_channel_item(load, service, stream, frame);
    } else if (frame->type == CANCEL || frame->type == ERROR) {
        close_stream(service, stream);
    }
}

/* -- the loop ----------------------------------------------------------------------------------------------------- */

static void read_peer(struct load *load, struct peer *peer) {
    struct frame frame;
    size_t taken = 0;
    if (connection_read(&peer->wire) < 0)
        die("the broker closed the connection of a %s", peer->is_service ? "service" : "caller");
    uint64_t now = now_ns();
    while (next_frame(&peer->wire.in, &taken, &frame)) {
        if (frame.type == METADATA_PUSH && peer->is_service) count_arrival(load, &frame, now);
        else if (frame.stream_id == 0) handle_stream_zero(load, peer, &frame);
        else if (peer->is_service) handle_service_frame(load, peer, &frame, now);
        else handle_caller_frame(load, peer, &frame, now);
    }
    connection_consumed(&peer->wire, taken);
}

static void turn(struct load *load, uint64_t limit_ns) {
    int ready = reactor_wait(&load->reactor, limit_ns);
    for (int at = 0; at < ready; at++) {
        struct epoll_event *event = &load->reactor.events[at];
        struct peer *peer = event->data.ptr;
        if (event->events & EPOLLOUT) connection_write(&load->reactor, &peer->wire);
        if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_peer(load, peer);
    }
    if (!reactor_flush(&load->reactor)) die("the broker closed a connection");
}

static bool are_all_ready(const struct load *load) {
    for (uint32_t index = 0; index < load->peers_n; index++)
        if (!load->peers[index].is_ready) return false;
    return true;
}

/* Opens the services first, so that no caller can come before the routes. */
static void connect_peers(struct load *load) {
    const struct options *options = &load->options;
    uint64_t limit = now_ns() + READY_LIMIT_S * 1000000000ull;
    load->peers_n = (uint32_t)(options->services + options->connections);
    load->peers = allocate(load->peers_n, sizeof *load->peers);
    for (uint32_t index = 0; index < load->peers_n; index++) {
        struct peer *peer = &load->peers[index];
        peer->index = index;
        peer->is_service = index < (uint32_t)options->services;
        peer->last_id = MAX_STREAM_ID; /* the next one is 1 */
        int open_n = options->in_flight * (peer->is_service ? options->connections : 1);
        id_map_start(&peer->open_ids, (size_t)open_n);
        if (!peer->is_service) peer->streams = allocate((size_t)options->in_flight, sizeof *peer->streams);
        connection_open(&load->reactor, &peer->wire, peer->is_service ? options->service_port : options->port);
        send_opening(load, peer);
    }
    while (!are_all_ready(load)) {
        turn(load, TURN_NS);
        if (now_ns() > limit)
            die("the broker did not answer the KEEPALIVE of every connection within %d s", READY_LIMIT_S);
    }
    if (options->service_port != options->port) usleep(SPREAD_US); /* one broker tells the other of the routes */
}

static enum frame_type type_of_model(const char *model) {
    static const struct {
        const char *model;
        enum frame_type type;
    } known[] = {
        {"request_response", REQUEST_RESPONSE}, {"fire_and_forget", REQUEST_FNF}, {"metadata_push", METADATA_PUSH},
        {"request_stream", REQUEST_STREAM},     {"request_channel", REQUEST_CHANNEL},
    };
    for (size_t at = 0; at < sizeof known / sizeof *known; at++)
        if (!strcmp(known[at].model, model)) return known[at].type;
    die("--model %s: known are request_response fire_and_forget request_stream request_channel metadata_push", model);
}

static void prepare(struct load *load) {
    struct options *options = &load->options;
    bool is_shard = !strcmp(options->routing, "shard"), is_multicast = !strcmp(options->routing, "multicast");
    load->request_type = type_of_model(options->model);
    if (!is_shard && !is_multicast && strcmp(options->routing, "unicast"))
        die("--routing %s: known are unicast shard multicast", options->routing);
    bool is_marked = load->request_type == REQUEST_FNF || load->request_type == METADATA_PUSH;
    if (is_marked && options->payload_bytes < MARK_BYTES)
        die("--payload-bytes %zu: %s needs at least %d", options->payload_bytes, options->model, MARK_BYTES);
    if (strlen(options->mime) > 128) die("--mime: at most 128 letters");
    load->copies = is_multicast ? (uint32_t)options->services : 1;
    load->payload = allocate(options->payload_bytes, 1);
    memset(load->payload, 'x', options->payload_bytes);
    load->requests_n = is_shard ? (uint32_t)options->keys : 1;
    load->requests = allocate(load->requests_n, sizeof *load->requests);
    load->request_bytes = allocate(load->requests_n, sizeof *load->request_bytes);
    for (uint32_t key = 0; key < load->requests_n; key++)
        load->request_bytes[key] = encode_request(load, key, &load->requests[key]);
}

int main(int count, char **arguments) {
    struct load *load = allocate(1, sizeof *load);
    load->options = parse_options(count, arguments);
    reactor_start(&load->reactor);
    prepare(load);
    connect_peers(load);
    window_start(&load->window, &load->options);
    load->begun_at_ns = now_ns();
    for (uint32_t index = 0; index < load->peers_n; index++) {
        struct peer *peer = &load->peers[index];
        if (peer->is_service) continue;
        if (load->options.rate) peer->free_slots = allocate((size_t)load->options.in_flight, sizeof *peer->free_slots);
        for (int slot = 0; slot < load->options.in_flight; slot++) {
            if (load->options.rate) peer->free_slots[peer->free_n++] = (uint32_t)slot;
            else begin_request(load, peer, (uint32_t)slot, now_ns());
        }
    }
    uint64_t limit_ns = TURN_NS;
    do {
        if (load->options.rate) limit_ns = begin_due_requests(load);
        if (!reactor_flush(&load->reactor)) die("the broker closed a connection");
        turn(load, limit_ns);
    } while (window_goes_on(&load->window, &load->options));
    return 0;
}
