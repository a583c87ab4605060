/* ZooKeeper's C client (libzookeeper_mt); see dialogue.py for what it does and says. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

struct event {
    int type;
    int state;
};

/* The library calls back on a thread that may not wait for it: events are handed to the main one. */
static struct event events[1000];
static int written, taken;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;

static void note(zhandle_t *handle, int type, int state, const char *path, void *context) {
    pthread_mutex_lock(&lock);
    events[written].type = type;
    events[written++].state = state;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
}

static struct event next(void) {
    pthread_mutex_lock(&lock);
    while (taken == written)
        pthread_cond_wait(&more, &lock);
    struct event event = events[taken++];
    pthread_mutex_unlock(&lock);
    return event;
}

static void must(int code, const char *what) {
    if (code != ZOK) {
        printf("failed %s: %s\n", what, zerror(code));
        exit(1);
    }
}

static char value[100], path[200], ephemeral[300], created[300];

static void read_value(zhandle_t *handle) {
    int length = sizeof value - 1;
    must(zoo_get(handle, path, 1, value, &length, NULL), "get");
    value[length < 0 ? 0 : length] = 0;
}

static void begin(zhandle_t *handle) {
    must(zoo_create(handle, path, "one", 3, &ZOO_OPEN_ACL_UNSAFE, 0, created, sizeof created), "create");
    read_value(handle);
    printf("read %s\n", value);
    must(zoo_set(handle, path, "two", 3, 0), "set");
    must(zoo_create(handle, ephemeral, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, created, sizeof created), "create");
    printf("created %s\n", created);
    char sequential[300];
    snprintf(sequential, sizeof sequential, "%s/s-", path);
    must(zoo_create(handle, sequential, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, created, sizeof created), "create");
    printf("created %s\n", created);
    zoo_op_t operations[2];
    zoo_op_result_t results[2];
    zoo_delete_op_init(&operations[0], ephemeral, -1);
    zoo_check_op_init(&operations[1], path, 7);
    if (zoo_multi(handle, 2, operations, results) == ZBADVERSION)
        printf("refused %d\n", results[0].err == ZOK && results[1].err == ZBADVERSION ? 2 : 0);
    read_value(handle);
    printf("waiting\n");
}

int main(int count, char **arguments) {
    if (count != 3)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    zoo_set_debug_level(0);
    snprintf(path, sizeof path, "%s", arguments[2]);
    snprintf(ephemeral, sizeof ephemeral, "%s/ephemeral", path);
    zhandle_t *handle = zookeeper_init(arguments[1], note, 30000, NULL, NULL, 0);
    int begun = 0, connected = 0;
    for (;;) {
        struct event event = next();
        if (event.type == ZOO_SESSION_EVENT && event.state == ZOO_CONNECTED_STATE) {
            printf("connected 0x%llx\n", (unsigned long long)zoo_client_id(handle)->client_id);
            connected = 1;
            if (!begun++)
                begin(handle);
        } else if (event.type == ZOO_SESSION_EVENT && event.state == ZOO_EXPIRED_SESSION_STATE) {
            printf("expired\n");
            return 0;
        } else if (event.type == ZOO_SESSION_EVENT && connected) {
            connected = 0;
            printf("disconnected\n");
        } else if (event.type == ZOO_CHANGED_EVENT) {
            read_value(handle);
            printf("changed %s\n", path);
            if (!strcmp(value, "three")) {
                int kept = zoo_exists(handle, ephemeral, 0, NULL) == ZOK;
                printf("read three, the ephemeral is %s\n", kept ? "there" : "gone");
            }
        }
    }
}
