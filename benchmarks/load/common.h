/*
 * What the programs of this folder share: the clock, growing buffers, non-blocking connections with one read and one
 * write per loop turn, the measured window, a latency histogram and the CPU time of another process.
 *
 * It knows neither RSocket nor NATS. Everything is `static inline`, so that each program is one translation unit.
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    FIRST_BUFFER_BYTES = 256 * 1024, /* one read takes what a full loopback socket usually holds */
    EVENTS_PER_TURN = 256,
    TURN_NS = 100000000, /* epoll's limit, so that the end of the window is never missed by more */
    SPREAD_US = 500000, /* for one broker to tell another of the routes that it has got */
    READY_LIMIT_S = 10, /* for the broker to answer the opening of every connection */
    STALL_LIMIT_S = 3,  /* nothing completed for so long: something was lost, a closed loop cannot recover */
};

#define WARM_UP_SHARE 0.2 /* of --seconds; not measured */

/* -- errors and memory -------------------------------------------------------------------------------------------- */

/* Ends the program with one sentence on stderr and exit status 1. */
__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

/* Zeroed memory for `count` things, or the end of the program. */
static inline void *allocate(size_t count, size_t bytes_each) {
    void *memory = calloc(count ? count : 1, bytes_each);
    if (!memory) die("out of memory for %zu x %zu bytes", count, bytes_each);
    return memory;
}

static inline void *reallocate(void *old, size_t bytes) {
    void *memory = realloc(old, bytes);
    if (!memory) die("out of memory for %zu bytes", bytes);
    return memory;
}

/* -- clock and CPU time ------------------------------------------------------------------------------------------- */

static inline uint64_t clock_ns(clockid_t clock) {
    struct timespec moment;
    clock_gettime(clock, &moment);
    return (uint64_t)moment.tv_sec * 1000000000u + (uint64_t)moment.tv_nsec;
}

/* Monotonic now, nanoseconds. */
static inline uint64_t now_ns(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

/* The first number of a /proc file of one number per field, or -1. */
static inline int64_t first_number_of(const char *path) {
    FILE *file = fopen(path, "r");
    unsigned long long number;
    if (!file) return -1;
    int found = fscanf(file, "%llu", &number);
    fclose(file);
    return found == 1 ? (int64_t)number : -1;
}

/* utime + stime of /proc/PID/stat: the whole process, but in clock ticks of usually 10 ms. -1 when unreadable. */
static inline int64_t coarse_cpu_ns_of(int pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *after_name = strrchr(text, ')'); /* the name may hold spaces and parentheses */
    unsigned long long utime, stime;
    const char *format = "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu";
    if (!after_name || sscanf(after_name + 2, format, &utime, &stime) != 2) return -1;
    return (int64_t)((utime + stime) * (1000000000u / (unsigned long long)sysconf(_SC_CLK_TCK)));
}

/*
 * CPU time of a process and all its living threads in nanoseconds: the sum of /proc/PID/task/TID/schedstat, or the
 * coarse figure where the kernel keeps no schedstat. Ends the program when there is no such process.
 */
static inline uint64_t cpu_ns_of(int pid) {
    char path[512];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks) die("--cpu-of %d: there is no such process", pid);
    int64_t sum = 0;
    for (struct dirent *task; (task = readdir(tasks));) {
        if (task->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, task->d_name);
        int64_t part = first_number_of(path);
        if (part > 0) sum += part; /* -1: the thread has just ended */
    }
    closedir(tasks);
    if (sum == 0) sum = coarse_cpu_ns_of(pid);
    if (sum < 0) die("--cpu-of %d: its CPU time cannot be read", pid);
    return (uint64_t)sum;
}

/* -- latency histogram -------------------------------------------------------------------------------------------- */

/* 128 buckets per octave: a percentile is wrong by at most 0.4 %. Counting is one increment, no sorting at the end. */
enum { SUB_BITS = 7, SUB_BUCKETS = 1 << SUB_BITS, BUCKETS = SUB_BUCKETS * (64 - SUB_BITS + 1) };

struct histogram {
    uint64_t total;
    uint64_t counts[BUCKETS];
};

static inline void histogram_add(struct histogram *histogram, uint64_t ns) {
    unsigned octave = ns < SUB_BUCKETS ? 0 : 64 - SUB_BITS - (unsigned)__builtin_clzll(ns);
    uint64_t low = octave ? (ns >> (octave - 1)) & (SUB_BUCKETS - 1) : ns;
    histogram->counts[octave * SUB_BUCKETS + low]++;
    histogram->total++;
}

/* The latency in µs that `share` (0..1) of the requests did not exceed; 0 when nothing was counted. */
static inline double histogram_us(const struct histogram *histogram, double share) {
    uint64_t wanted = (uint64_t)(share * (double)histogram->total), seen = 0;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        seen += histogram->counts[bucket];
        if (seen > wanted) {
            unsigned octave = bucket / SUB_BUCKETS, low = bucket % SUB_BUCKETS;
            if (octave == 0) return bucket / 1e3;
            return ((double)SUB_BUCKETS + low + 0.5) * (double)(1ull << (octave - 1)) / 1e3;
        }
    }
    return 0;
}

/* -- options ------------------------------------------------------------------------------------------------------ */

#define CPU_OF_MAX 16

struct options {
    int port;
    int service_port; /* where the services connect; 0: where the callers do */
    const char *model;
    int connections;
    int in_flight; /* per connection */
    size_t payload_bytes;
    double seconds; /* with the warm-up */
    int services;
    const char *routing; /* unicast, shard, multicast */
    const char *mime;    /* of the broker frames */
    int cpu_of[CPU_OF_MAX]; /* process ids of the broker, or of several together; 0: the list ends */
    int items;           /* per stream and channel */
    int credit;          /* first REQUEST_N; half of it is granted again whenever half of it has come */
    int keys;            /* different shard keys */
    int rate;            /* requests per second of all connections together; 0: as fast as they are completed */
    const char *endpoint; /* of ZeroMQ, instead of a port */
};

/* The CPU time of all of them together. */
static inline uint64_t cpu_ns_of_all(const int *pids) {
    uint64_t sum = 0;
    for (int at = 0; at < CPU_OF_MAX && pids[at]; at++) sum += cpu_ns_of(pids[at]);
    return sum;
}

static inline int64_t number_option(const char *name, const char *text, int64_t low, int64_t high) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (*end || end == text || errno || number < low || number > high)
        die("--%s %s: a whole number from %lld to %lld is needed", name, text, (long long)low, (long long)high);
    return number;
}

static inline void set_option(struct options *options, const char *name, const char *text) {
    if (!strcmp(name, "port")) options->port = (int)number_option(name, text, 1, 65535);
    else if (!strcmp(name, "model")) options->model = text;
    else if (!strcmp(name, "connections")) options->connections = (int)number_option(name, text, 1, 10000);
    else if (!strcmp(name, "in-flight")) options->in_flight = (int)number_option(name, text, 1, 65536);
    else if (!strcmp(name, "payload-bytes")) options->payload_bytes = (size_t)number_option(name, text, 0, 16 << 20);
    else if (!strcmp(name, "services")) options->services = (int)number_option(name, text, 1, 1000);
    else if (!strcmp(name, "routing")) options->routing = text;
    else if (!strcmp(name, "mime")) options->mime = text;
    else if (!strcmp(name, "service-port")) options->service_port = (int)number_option(name, text, 1, 65535);
    else if (!strcmp(name, "cpu-of")) {
        char copy[256];
        if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy) die("--cpu-of %s: that is too long", text);
        int count = 0;
        for (char *part = strtok(copy, ","); part; part = strtok(NULL, ",")) {
            if (count == CPU_OF_MAX) die("--cpu-of %s: at most %d processes", text, CPU_OF_MAX);
            options->cpu_of[count++] = (int)number_option(name, part, 1, 1 << 30);
        }
    }
    else if (!strcmp(name, "items")) options->items = (int)number_option(name, text, 1, 1 << 30);
    else if (!strcmp(name, "credit")) options->credit = (int)number_option(name, text, 2, 1 << 20);
    else if (!strcmp(name, "keys")) options->keys = (int)number_option(name, text, 1, 9999);
    else if (!strcmp(name, "endpoint")) options->endpoint = text;
    else if (!strcmp(name, "rate")) options->rate = (int)number_option(name, text, 1, 10000000);
    else if (!strcmp(name, "seconds")) {
        char *end;
        options->seconds = strtod(text, &end);
        if (*end || !(options->seconds > 0)) die("--seconds %s: a number above 0 is needed", text);
    }
}

static inline struct options parse_options(int count, char **arguments) {
    static const struct option known[] = {
        {"port", required_argument, 0, 0},          {"model", required_argument, 0, 0},
        {"connections", required_argument, 0, 0},   {"in-flight", required_argument, 0, 0},
        {"payload-bytes", required_argument, 0, 0}, {"seconds", required_argument, 0, 0},
        {"services", required_argument, 0, 0},      {"routing", required_argument, 0, 0},
        {"mime", required_argument, 0, 0},          {"cpu-of", required_argument, 0, 0},
        {"items", required_argument, 0, 0},         {"credit", required_argument, 0, 0},
        {"keys", required_argument, 0, 0},          {"service-port", required_argument, 0, 0},
        {"rate", required_argument, 0, 0},          {"endpoint", required_argument, 0, 0},
        {0, 0, 0, 0},
    };
    struct options options = {
        .model = "request_response", .connections = 1, .in_flight = 1, .payload_bytes = 100, .seconds = 5,
        .services = 1, .routing = "unicast", .mime = "message/x.rsocket.forwarding", .items = 1024, .credit = 128,
        .keys = 64,
    };
    for (int which, result; (result = getopt_long(count, arguments, "", known, &which)) != -1;) {
        if (result == '?')
            die("known options: --port --model --connections --in-flight --payload-bytes --seconds --services "
                "--routing --mime --cpu-of --items --credit --keys --service-port --rate --endpoint");
        set_option(&options, known[which].name, optarg);
    }
    if (optind < count) die("%s: only named options are understood", arguments[optind]);
    if (!options.port && !options.endpoint) die("--port is needed");
    if (!options.service_port) options.service_port = options.port;
    return options;
}

/* -- the measured window ------------------------------------------------------------------------------------------ */

/* Counts from the end of the warm-up on; `errors` counts from the start, because no error is allowed at any time. */
struct window {
    uint64_t opens_at_ns, closes_at_ns;
    uint64_t begun_at_ns; /* 0 during the warm-up */
    uint64_t requests, items, errors;
    uint64_t broker_cpu_ns, own_cpu_ns; /* at the beginning */
    uint64_t progress_at_ns;            /* when something completed last */
    bool is_stopped;
    struct histogram latency;
};

static inline void window_start(struct window *window, const struct options *options) {
    uint64_t now = now_ns();
    window->opens_at_ns = now + (uint64_t)(options->seconds * WARM_UP_SHARE * 1e9);
    window->closes_at_ns = now + (uint64_t)(options->seconds * 1e9);
    window->progress_at_ns = now;
}

/* Counts one request that was sent at `sent_at_ns` and is complete now. */
static inline void window_completed(struct window *window, uint64_t sent_at_ns, uint64_t now) {
    window->progress_at_ns = now;
    if (!window->begun_at_ns) return;
    window->requests++;
    histogram_add(&window->latency, now - sent_at_ns);
}

static inline void window_item(struct window *window, uint64_t now) {
    window->progress_at_ns = now;
    if (window->begun_at_ns) window->items++;
}

static inline void print_report(const struct options *options, const struct window *window, uint64_t now) {
    if (!window->requests && !window->items)
        die("nothing completed in the window (%llu errors)", (unsigned long long)window->errors);
    double window_s = (double)(now - window->begun_at_ns) / 1e9;
    double requests = window->requests ? (double)window->requests : 1;
    printf("{\"model\": \"%s\", \"connections\": %d, \"in_flight\": %d, \"payload_bytes\": %zu, ", options->model,
           options->connections, options->in_flight, options->payload_bytes);
    printf("\"requests\": %llu, \"items\": %llu, \"requests_per_s\": %.1f, \"items_per_s\": %.1f, \"errors\": %llu, ",
           (unsigned long long)window->requests, (unsigned long long)window->items, (double)window->requests / window_s,
           (double)window->items / window_s, (unsigned long long)window->errors);
    printf("\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"window_s\": %.3f, ",
           histogram_us(&window->latency, 0.5), histogram_us(&window->latency, 0.99),
           histogram_us(&window->latency, 0.999), window_s);
    if (options->cpu_of[0]) {
        double broker_us = (double)(cpu_ns_of_all(options->cpu_of) - window->broker_cpu_ns) / 1e3;
        printf("\"cpu_us_per_request\": %.3f, ", broker_us / requests);
        if (window->items) printf("\"cpu_us_per_item\": %.3f, ", broker_us / (double)window->items);
        printf("\"broker_busy\": %.3f, ", broker_us / (window_s * 1e6));
    }
    double own_us = (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - window->own_cpu_ns) / 1e3;
    printf("\"load_cpu_us_per_request\": %.3f, \"load_busy\": %.3f}\n", own_us / requests, own_us / (window_s * 1e6));
}

/* To be called once per loop turn: opens the window after the warm-up; at its end prints the report and says false. */
static inline bool window_goes_on(struct window *window, const struct options *options) {
    uint64_t now = now_ns();
    if (!window->begun_at_ns && now >= window->opens_at_ns) {
        if (options->cpu_of[0]) window->broker_cpu_ns = cpu_ns_of_all(options->cpu_of);
        window->own_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        window->begun_at_ns = now_ns();
    }
    if (now >= window->closes_at_ns) {
        print_report(options, window, now);
        return false;
    }
    if (now - window->progress_at_ns > STALL_LIMIT_S * 1000000000ull)
        die("nothing completed for %d s (%llu requests before that, %llu errors): a request was lost", STALL_LIMIT_S,
            (unsigned long long)window->requests, (unsigned long long)window->errors);
    return true;
}

/* -- connections -------------------------------------------------------------------------------------------------- */

/* Bytes from `start` to `end` wait to be written, or to be understood. */
struct buffer {
    uint8_t *bytes;
    size_t start, end, capacity;
};

/* Room for `bytes` more; the caller adds what it wrote to `end`. */
static inline uint8_t *buffer_reserve(struct buffer *buffer, size_t bytes) {
    if (buffer->end + bytes > buffer->capacity) {
        size_t waiting = buffer->end - buffer->start;
        if (buffer->start) memmove(buffer->bytes, buffer->bytes + buffer->start, waiting);
        buffer->start = 0;
        buffer->end = waiting;
        size_t capacity = buffer->capacity ? buffer->capacity : FIRST_BUFFER_BYTES;
        while (capacity < waiting + bytes) capacity *= 2;
        if (capacity != buffer->capacity) buffer->bytes = reallocate(buffer->bytes, capacity);
        buffer->capacity = capacity;
    }
    return buffer->bytes + buffer->end;
}

static inline uint8_t *buffer_push(struct buffer *buffer, const void *bytes, size_t count) {
    uint8_t *place = buffer_reserve(buffer, count);
    memcpy(place, bytes, count);
    buffer->end += count;
    return place;
}

/* The first member of what the programs hang into epoll. */
struct connection {
    int fd;
    bool is_dirty;        /* is in the reactor's list: has something to write at the end of this turn */
    bool is_write_waited; /* the socket was full: EPOLLOUT is on */
    struct buffer in, out;
};

struct reactor {
    int epoll_fd;
    struct connection **dirty;
    size_t dirty_n, dirty_capacity;
    struct epoll_event events[EVENTS_PER_TURN];
};

static inline void reactor_start(struct reactor *reactor) {
    reactor->epoll_fd = epoll_create1(0);
    if (reactor->epoll_fd < 0) die("epoll_create1: %s", strerror(errno));
}

/* Makes a connected socket non-blocking and watches it. */
static inline void reactor_add(struct reactor *reactor, struct connection *connection, int fd) {
    int on = 1;
    connection->fd = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(reactor->epoll_fd, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl: %s", strerror(errno));
}

static inline void connection_open(struct reactor *reactor, struct connection *connection, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        die("cannot connect to 127.0.0.1:%d: %s", port, strerror(errno));
    reactor_add(reactor, connection, fd);
}

/* Says that the connection has something to write; may be called often, costs one branch. */
static inline void reactor_mark(struct reactor *reactor, struct connection *connection) {
    if (connection->is_dirty) return;
    connection->is_dirty = true;
    if (reactor->dirty_n == reactor->dirty_capacity) {
        reactor->dirty_capacity = reactor->dirty_capacity ? reactor->dirty_capacity * 2 : 64;
        reactor->dirty = reallocate(reactor->dirty, reactor->dirty_capacity * sizeof *reactor->dirty);
    }
    reactor->dirty[reactor->dirty_n++] = connection;
}

static inline void connection_await_write(struct reactor *reactor, struct connection *connection, bool is_wanted) {
    if (connection->is_write_waited == is_wanted) return;
    connection->is_write_waited = is_wanted;
    struct epoll_event event = {.events = is_wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = connection};
    epoll_ctl(reactor->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
}

/* One write; what the socket does not take waits for EPOLLOUT. False when the other side is gone. */
static inline bool connection_write(struct reactor *reactor, struct connection *connection) {
    struct buffer *out = &connection->out;
    ssize_t written = send(connection->fd, out->bytes + out->start, out->end - out->start, MSG_NOSIGNAL);
    if (written < 0 && errno != EAGAIN) return false;
    if (written > 0) out->start += (size_t)written;
    bool is_left = out->start < out->end;
    if (!is_left) out->start = out->end = 0;
    connection_await_write(reactor, connection, is_left);
    return true;
}

/* One read behind what is already there. Bytes read, 0 when nothing was there, -1 when the other side is gone. */
static inline ssize_t connection_read(struct connection *connection) {
    struct buffer *in = &connection->in;
    uint8_t *place = buffer_reserve(in, 1); /* a full buffer holds the beginning of one large frame: it doubles */
    ssize_t count = read(connection->fd, place, in->capacity - in->end);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (count <= 0) return -1;
    in->end += (size_t)count;
    return count;
}

/* Takes what was understood off the input; what is left of a frame moves to the front. */
static inline void connection_consumed(struct connection *connection, size_t bytes) {
    struct buffer *in = &connection->in;
    in->start += bytes;
    if (in->start == in->end) {
        in->start = in->end = 0;
    } else if (in->start) {
        memmove(in->bytes, in->bytes + in->start, in->end - in->start);
        in->end -= in->start;
        in->start = 0;
    }
}

/* Writes each connection that was marked in this turn once. False when one of them is gone. */
static inline bool reactor_flush(struct reactor *reactor) {
    bool is_whole = true;
    for (size_t at = 0; at < reactor->dirty_n; at++) {
        struct connection *connection = reactor->dirty[at];
        connection->is_dirty = false;
        /* A full socket is written when epoll says so, not before. */
        if (!connection->is_write_waited && !connection_write(reactor, connection)) is_whole = false;
    }
    reactor->dirty_n = 0;
    return is_whole;
}

static inline int reactor_wait(struct reactor *reactor, uint64_t timeout_ns) {
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000u), .tv_nsec = (long)(timeout_ns % 1000000000u)};
    int count = epoll_pwait2(reactor->epoll_fd, reactor->events, EVENTS_PER_TURN, &timeout, NULL);
    if (count < 0 && errno != EINTR) die("epoll_pwait2: %s", strerror(errno));
    return count < 0 ? 0 : count;
}

#endif
