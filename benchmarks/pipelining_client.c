/* A fast ZooKeeper client for measuring servers: raw sockets, frames made beforehand, so many requests in flight.

       cc -O2 -o pipelining_client pipelining_client.c && ./pipelining_client PORT CONNECTIONS IN_FLIGHT REQUESTS

   It creates REQUESTS znodes of 100 bytes, then gets them all, and prints one line of JSON: for each kind the requests
   per second, and the 50th and 99th percentile of the time between request and reply in ms. All frames of a kind have
   one length, and so have all replies, so that the client has nearly nothing to do: it counts bytes. Its arithmetic is
   checked at the end: the last reply of each connection must carry the last xid and no error. */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DATA_BYTES = 100, TIMEOUT_MS = 30000, STAT_BYTES = 68, HEADER_BYTES = 4 + 16, MAX_CONNECTIONS = 64 };
enum { CREATE = 1, GET = 4, CLOSE = -11, ALL_PERMISSIONS = 31, PATH_BYTES = 23, MAX_FRAME = 256 };

typedef struct {
    int socket;
    unsigned char *frames, *tail;
    size_t frame_bytes, reply_bytes, sent_bytes, received_bytes, tail_bytes;
    int total, sent, answered;
    double *sent_at_s;
} Stream;

static void fail(const char *what) {
    fprintf(stderr, "pipelining_client: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void require(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "pipelining_client: %s\n", what);
        exit(1);
    }
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static unsigned char *put_int(unsigned char *at, int32_t value) {
    uint32_t big = htonl((uint32_t)value);
    memcpy(at, &big, 4);
    return at + 4;
}

static int32_t get_int(const unsigned char *at) {
    uint32_t big;
    memcpy(&big, at, 4);
    return (int32_t)ntohl(big);
}

static unsigned char *put_text(unsigned char *at, const char *text, int32_t length) {
    at = put_int(at, length);
    memcpy(at, text, (size_t)length);
    return at + length;
}

/* The frame of a request at `frame`; its length. */
static size_t make_request(unsigned char *frame, int32_t xid, int32_t opcode, const char *path, int32_t data_bytes) {
    static const char data[DATA_BYTES];
    unsigned char *at = put_int(put_int(frame + 4, xid), opcode);
    if (opcode != CLOSE) at = put_text(at, path, (int32_t)strlen(path));
    if (opcode == CREATE) {
        at = put_text(at, data, data_bytes);
        at = put_int(put_int(at, 1), ALL_PERMISSIONS);
        at = put_text(put_text(at, "world", 5), "anyone", 6);
        at = put_int(at, 0);
    } else if (opcode == GET) {
        *at++ = 0;
    }
    put_int(frame, (int32_t)(at - frame) - 4);
    return (size_t)(at - frame);
}

static void send_all(int to, const unsigned char *data, size_t length) {
    while (length) {
        ssize_t sent = send(to, data, length, 0);
        if (sent < 0) fail("send");
        data += sent;
        length -= (size_t)sent;
    }
}

static void receive_all(int from, unsigned char *data, size_t length) {
    while (length) {
        ssize_t received = recv(from, data, length, 0);
        if (received <= 0) fail("recv");
        data += received;
        length -= (size_t)received;
    }
}

static int connect_to(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int made = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (made < 0 || connect(made, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    /* ConnectRequest: protocol version, last zxid, timeout, session id, password, read-only. */
    unsigned char greeting[49] = {0}, answer[MAX_FRAME];
    put_int(greeting, 45);
    put_int(greeting + 16, TIMEOUT_MS);
    put_int(greeting + 28, 16);
    send_all(made, greeting, sizeof greeting);
    receive_all(made, answer, 4);
    int32_t length = get_int(answer);
    require(length > 0 && length < MAX_FRAME, "an answer of this length is no session");
    receive_all(made, answer, (size_t)length);
    require(get_int(answer + 4) > 0, "the server gives no session");
    return made;
}

static void send_next(Stream *stream, int count, double at_s) {
    if (count > stream->total - stream->sent) count = stream->total - stream->sent;
    if (!count) return;
    for (int i = 0; i < count; i++) stream->sent_at_s[stream->sent + i] = at_s;
    send_all(stream->socket, stream->frames + stream->sent_bytes, (size_t)count * stream->frame_bytes);
    stream->sent_bytes += (size_t)count * stream->frame_bytes;
    stream->sent += count;
}

/* Take what has come, note how long each request took, and send as many as were answered. */
static void receive_some(Stream *stream, double *latencies_s, int *count) {
    static unsigned char data[1 << 18];
    ssize_t got = recv(stream->socket, data, sizeof data, 0);
    if (got <= 0) fail("recv");
    double at_s = now_s();
    stream->received_bytes += (size_t)got;
    size_t kept = (size_t)got < stream->reply_bytes ? stream->reply_bytes - (size_t)got : 0;
    if (kept > stream->tail_bytes) kept = stream->tail_bytes;
    size_t taken = (size_t)got < stream->reply_bytes ? (size_t)got : stream->reply_bytes;
    memmove(stream->tail, stream->tail + stream->tail_bytes - kept, kept);
    memcpy(stream->tail + kept, data + got - taken, taken);
    stream->tail_bytes = kept + taken;
    int answered = (int)(stream->received_bytes / stream->reply_bytes), before = stream->answered;
    for (int i = before; i < answered; i++) latencies_s[(*count)++] = at_s - stream->sent_at_s[i];
    stream->answered = answered;
    send_next(stream, answered - before, at_s);
}

static int ascending(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void make_path(char *path, const char *parent, int number) {
    snprintf(path, PATH_BYTES + 1, "%s/n%08d", parent, number);
}

/* Ask everything of one kind, so many at once over all connections; print the figures. */
static void measure(int opcode, int *sockets, int connections, int in_flight, int requests, const char *parent) {
    Stream streams[MAX_CONNECTIONS];
    struct pollfd polled[MAX_CONNECTIONS];
    int share = requests / connections, left = connections, count = 0;
    double *latencies_s = malloc(sizeof(double) * (size_t)(share * connections));
    char path[PATH_BYTES + 1];
    for (int c = 0; c < connections; c++) {
        Stream *stream = &streams[c];
        memset(stream, 0, sizeof *stream);
        stream->socket = sockets[c];
        stream->total = share;
        stream->frames = malloc((size_t)share * MAX_FRAME);
        stream->sent_at_s = malloc(sizeof(double) * (size_t)share);
        stream->reply_bytes = HEADER_BYTES + 4 + (opcode == CREATE ? PATH_BYTES : DATA_BYTES + STAT_BYTES);
        stream->tail = malloc(stream->reply_bytes);
        unsigned char *at = stream->frames;
        for (int i = 0; i < share; i++) {
            make_path(path, parent, c * share + i);
            stream->frame_bytes = make_request(at, i + 1, opcode, path, DATA_BYTES);
            at += stream->frame_bytes;
        }
        polled[c] = (struct pollfd){.fd = stream->socket, .events = POLLIN};
    }
    double begun_s = now_s();
    for (int c = 0; c < connections; c++) send_next(&streams[c], in_flight / connections, now_s());
    while (left) {
        if (poll(polled, (nfds_t)connections, -1) < 0) fail("poll");
        for (int c = 0; c < connections; c++) {
            if (!(polled[c].revents & (POLLIN | POLLHUP | POLLERR))) continue;
            receive_some(&streams[c], latencies_s, &count);
            if (streams[c].answered == streams[c].total) {
                polled[c].fd = -1;
                left--;
            }
        }
    }
    double elapsed_s = now_s() - begun_s;
    for (int c = 0; c < connections; c++) {
        Stream *stream = &streams[c];
        require(stream->received_bytes == (size_t)stream->total * stream->reply_bytes, "a reply of another length");
        require(get_int(stream->tail + 4) == stream->total, "the last reply has another xid");
        require(get_int(stream->tail + 16) == 0, "the last reply tells an error");
        free(stream->frames);
        free(stream->sent_at_s);
        free(stream->tail);
    }
    qsort(latencies_s, (size_t)count, sizeof(double), ascending);
    printf("\"per_second\": %.1f, \"p50_ms\": %.4f, \"p99_ms\": %.4f", count / elapsed_s, latencies_s[count / 2] * 1e3,
           latencies_s[(int)(count * 0.99)] * 1e3);
    free(latencies_s);
}

int main(int argc, char **argv) {
    require(argc == 5, "usage: pipelining_client PORT CONNECTIONS IN_FLIGHT REQUESTS");
    int port = atoi(argv[1]), connections = atoi(argv[2]), in_flight = atoi(argv[3]), requests = atoi(argv[4]);
    require(connections > 0 && connections <= MAX_CONNECTIONS, "CONNECTIONS is from 1 to 64");
    require(in_flight >= connections && requests >= connections, "each connection has something to ask");
    int sockets[MAX_CONNECTIONS];
    for (int c = 0; c < connections; c++) sockets[c] = connect_to(port);
    /* A parent of its own for each run; all paths have one length, whatever the run. */
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char parent[32];
    snprintf(parent, sizeof parent, "/b%011lld", (long long)(now.tv_sec % 100000) * 1000000 + now.tv_nsec / 1000);
    unsigned char frame[MAX_FRAME], reply[MAX_FRAME];
    send_all(sockets[0], frame, make_request(frame, 1, CREATE, parent, 0));
    receive_all(sockets[0], reply, HEADER_BYTES + 4 + strlen(parent));
    require(get_int(reply + 16) == 0, "the parent is not created");
    printf("{\"create\": {");
    measure(CREATE, sockets, connections, in_flight, requests, parent);
    printf("}, \"get\": {");
    measure(GET, sockets, connections, in_flight, requests, parent);
    printf("}}\n");
    for (int c = 0; c < connections; c++) {
        send_all(sockets[c], frame, make_request(frame, 1 << 30, CLOSE, "", 0));
        receive_all(sockets[c], reply, HEADER_BYTES);
        close(sockets[c]);
    }
    return 0;
}
