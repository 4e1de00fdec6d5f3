/*
 * The few bytes of RSocket that a load generator and a relay must know, and the map from stream ids to slots.
 *
 *   TCP      | u24 length | u32 stream id | type 6 bits, I, M, flags 8 bits | body …
 *   bytes      0            3               7                                 9
 *
 * RSocket protocol 1.0, "Framing" and "Frame types".
 */
#ifndef BENCH_FRAMES_H
#define BENCH_FRAMES_H

#include "common.h"

enum frame_type {
    SETUP = 0x01,
    KEEPALIVE = 0x03,
    REQUEST_RESPONSE = 0x04,
    REQUEST_FNF = 0x05,
    REQUEST_STREAM = 0x06,
    REQUEST_CHANNEL = 0x07,
    REQUEST_N = 0x08,
    CANCEL = 0x09,
    PAYLOAD = 0x0A,
    ERROR = 0x0B,
    METADATA_PUSH = 0x0C,
};

enum {
    LENGTH_BYTES = 3,
    HEADER_BYTES = 6,
    FRAME_OVERHEAD = LENGTH_BYTES + HEADER_BYTES,
    FLAG_METADATA = 0x100,
    FLAG_RESPOND = 0x80, /* KEEPALIVE */
    FLAG_COMPLETE = 0x40,
    FLAG_NEXT = 0x20,
    MAX_STREAM_ID = 0x7fffffff,
    MAX_FRAME_BYTES = 0xffffff,
};

static inline uint32_t u24_at(const uint8_t *at) {
    return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

static inline uint32_t u32_at(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline uint8_t *put_u16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
    return at + 2;
}

static inline uint8_t *put_u24(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 16);
    return put_u16(at + 1, value);
}

static inline uint8_t *put_u32(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 24);
    return put_u24(at + 1, value);
}

static inline uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t count) {
    memcpy(at, bytes, count);
    return at + count;
}

/* The length prefix and the header of a frame whose body has `body_bytes`. Returns where the body begins. */
static inline uint8_t *put_header(uint8_t *at, uint32_t stream_id, enum frame_type type, unsigned flags,
                                  size_t body_bytes) {
    at = put_u24(at, (uint32_t)(HEADER_BYTES + body_bytes));
    at = put_u32(at, stream_id);
    return put_u16(at, (uint32_t)type << 10 | flags);
}

/* One frame of the input, read where it lies. */
struct frame {
    uint8_t *bytes; /* at the length prefix */
    size_t size;    /* with the length prefix */
    uint32_t stream_id;
    enum frame_type type;
    unsigned flags;
};

/* The next whole frame of `in`, `*taken` bytes behind its start; false when there is none yet. */
static inline bool next_frame(const struct buffer *in, size_t *taken, struct frame *frame) {
    size_t left = in->end - in->start - *taken;
    if (left < LENGTH_BYTES) return false;
    frame->bytes = in->bytes + in->start + *taken;
    frame->size = LENGTH_BYTES + u24_at(frame->bytes);
    if (left < frame->size) return false;
    if (frame->size < FRAME_OVERHEAD) die("the broker sent a frame of %zu bytes", frame->size - LENGTH_BYTES);
    frame->stream_id = u32_at(frame->bytes + LENGTH_BYTES);
    unsigned type_and_flags = (unsigned)frame->bytes[7] << 8 | frame->bytes[8];
    frame->type = type_and_flags >> 10;
    frame->flags = type_and_flags & 0x3ff;
    *taken += frame->size;
    return true;
}

/* The text of an ERROR, for "%.*s": behind its code, up to the end of the frame. */
static inline const char *error_text(const struct frame *frame, int *bytes) {
    size_t text_at = FRAME_OVERHEAD + 4;
    *bytes = frame->size > text_at ? (int)(frame->size - text_at) : 0;
    return (const char *)frame->bytes + text_at;
}

/* The credit of a REQUEST_N, REQUEST_STREAM or REQUEST_CHANNEL. */
static inline uint32_t credit_of(const struct frame *frame) {
    if (frame->size < FRAME_OVERHEAD + 4) die("the broker sent a frame of type 0x%02x without its credit", frame->type);
    return u32_at(frame->bytes + FRAME_OVERHEAD);
}

/* -- stream ids --------------------------------------------------------------------------------------------------- */

/*
 * Open addressing over a power of two of places, at most half of them in use. Ids of one connection follow each other,
 * so id / 2 is a perfect hash as long as no stream outlives a whole turn of the table; if one does, probing goes on.
 */
struct id_map {
    uint32_t *ids; /* 0: free. No stream that is looked up here has the id 0 */
    uint32_t *slots;
    size_t places, used;
};

static inline void id_map_start(struct id_map *map, size_t expected) {
    map->used = 0;
    for (map->places = 64; map->places < expected * 4; map->places *= 2) {}
    map->ids = allocate(map->places, sizeof *map->ids);
    map->slots = allocate(map->places, sizeof *map->slots);
}

/* Where the id is, or the free place where it belongs. */
static inline size_t id_map_place(const struct id_map *map, uint32_t id) {
    size_t place = (id >> 1) & (map->places - 1);
    while (map->ids[place] && map->ids[place] != id) place = (place + 1) & (map->places - 1);
    return place;
}

/* The slot of an id, or -1. */
static inline int64_t id_map_find(const struct id_map *map, uint32_t id) {
    size_t place = id_map_place(map, id);
    return map->ids[place] ? (int64_t)map->slots[place] : -1;
}

static inline void id_map_put(struct id_map *map, uint32_t id, uint32_t slot) {
    if (map->used * 2 >= map->places) {
        struct id_map old = *map;
        id_map_start(map, old.places / 2);
        for (size_t place = 0; place < old.places; place++)
            if (old.ids[place]) id_map_put(map, old.ids[place], old.slots[place]);
        free(old.ids);
        free(old.slots);
    }
    size_t place = id_map_place(map, id);
    if (!map->ids[place]) map->used++;
    map->ids[place] = id;
    map->slots[place] = slot;
}

/* Forgets an id. What was pushed behind it by probing moves up (Knuth, 6.4 algorithm R), so that no tombstones stay. */
static inline void id_map_remove(struct id_map *map, uint32_t id) {
    size_t mask = map->places - 1, hole = id_map_place(map, id);
    if (!map->ids[hole]) return;
    map->used--;
    for (size_t place = (hole + 1) & mask; map->ids[place]; place = (place + 1) & mask) {
        size_t home = (map->ids[place] >> 1) & mask;
        if (((place - home) & mask) < ((place - hole) & mask)) continue; /* its home lies behind the hole */
        map->ids[hole] = map->ids[place];
        map->slots[hole] = map->slots[place];
        hole = place;
    }
    map->ids[hole] = 0;
}

/* The next id of a requester after `*last`: odd or even as it began, skipping ids in use, wrapping at 2^31. */
static inline uint32_t next_stream_id(const struct id_map *map, uint32_t *last) {
    do *last = *last + 2 > MAX_STREAM_ID ? (*last & 1 ? 1 : 2) : *last + 2;
    while (id_map_find(map, *last) >= 0);
    return *last;
}

#endif
