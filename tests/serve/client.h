/* client.h - a server of its own for a test, and a plain client that sends whatever bytes it is told to. */
#ifndef SERVE_CLIENT_H
#define SERVE_CLIENT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct serving {
    char folder[64]; /* of its own, removed at the end; models/ in it holds those of write_models() */
    pid_t pid;
    int port;
};

/* Makes the folder and the models. */
void serving_prepare(struct serving *serving);
/* The same without models. */
void serving_prepare_empty(struct serving *serving);
/* Writes a file of the folder. */
void serving_file(const struct serving *serving, const char *name, const char *text, int mode);
/* Copies a file there. */
void serving_copy(const struct serving *serving, const char *from, const char *name);
/* Files `tokens` and `admins` in it, one token in each, and the headers that show them. */
void serving_tokens(const struct serving *serving);
#define USER_TOKEN "user-0123456789abcdef"
#define ADMIN_TOKEN "admin-0123456789abcdef"
#define AS_USER "Authorization: Bearer " USER_TOKEN "\r\n"
#define AS_ADMIN "Authorization: Bearer " ADMIN_TOKEN "\r\n"
/* Version 1 of a model in it, made by one of the functions below, and its config.yaml unless that is NULL. */
void serving_model(const struct serving *serving, const char *name, const char *config,
                   void (*write)(const char *path));
/* The folder `plugins` in it, with this file as NAME.so. */
void serving_plugin(const struct serving *serving, const char *from, const char *name);
/* Makes a folder in it, and those above. */
void serving_folder(const struct serving *serving, const char *name);
/* The path of a file in it. */
const char *serving_path(const struct serving *serving, const char *name, char *path, size_t bytes);
/* Starts the server with these flags (NULL at the end; FOLDER/ at their beginning is the folder) and waits until it is
 * ready. */
void serving_start(struct serving *serving, const char *const *flags);
/* serving_prepare() and that. */
void serving_open(struct serving *serving, const char *const *flags);
/* The two halves of serving_start(): starts the server; waits until its log has the part, and reads that into text. */
void serving_spawn(struct serving *serving, const char *const *flags);
void serving_await(const struct serving *serving, const char *part, char *text, size_t bytes);
/* Sends a signal and returns its exit code, -1 if a signal ended it; fails the test after a minute. */
int serving_end(struct serving *serving, int signal_number);
void serving_remove(struct serving *serving);
/* Ends it by SIGTERM and removes the folder; the exit code. */
int serving_close(struct serving *serving);
/* The processes that it has started, those that have ended unseen among them. */
uint32_t serving_children(const struct serving *serving, long *pids, uint32_t room);
/* Open files and resident memory of the server. */
uint32_t serving_files(const struct serving *serving);
uint64_t serving_memory(const struct serving *serving);

struct answer {
    int code;        /* 0: the connection ended without one */
    char head[2048]; /* status line and headers */
    char body[262144];
    size_t body_bytes; /* body[body_bytes] is '\0' */
};

int client_connect(const struct serving *serving);
void client_send(int fd, const void *data, size_t bytes);
void client_text(int fd, const char *text);
/* Reads one answer. */
void client_receive(int fd, struct answer *out);
/* A request on a connection that stays. headers: lines that end in \r\n, may be "". body may be NULL. */
void client_call(int fd, const char *method, const char *path, const char *headers, const void *body, size_t bytes,
                 struct answer *out);
/* The same on a connection of its own. */
void client_once(const struct serving *serving, const char *method, const char *path, const char *headers,
                 const char *body, struct answer *out);
/* The same; fails the test unless the answer has that code, and the part in its body. */
void client_expect(const struct serving *serving, const char *method, const char *path, const char *headers,
                   const char *body, int code, const char *part);
/* The value of a header, or NULL. */
const char *answer_header(const struct answer *answer, const char *name, char *value, size_t bytes);
/* The number behind `name ` in /metrics, labels included; -1 if there is none. */
double client_metric(const struct serving *serving, const char *name);

/* models.c: twice [N,3] = 2x, joinable; triple/1 and triple/2 (versions: 2x and 4x); id_<DATATYPE> [N]; spin (n: INT64,
 * x [4,4]): n turns of a loop; pair (a [N,2], b [N,2]) = a + b. */
void write_models(const char *folder);
/* A model [N,3] that doubles its input so many times. */
void write_doubling(const char *path, uint32_t times);
/* A model y = Relu(x), [2], whose output and node have that name. */
void write_relu(const char *path, const char *name);
/* A model y = op(x), [7]. */
void write_one(const char *path, const char *op);
/* A model y = new = old + x, of one number each. */
void write_sum(const char *path);
/* The same with another operator than Add. */
void write_sum_by(const char *path, const char *op);
/* A model y = new = old + |x|, which turns n times over it. */
void write_slow_sum(const char *path);
/* A model hidden = x * mask [N,S], total = the sum of hidden [N,1]; unless masked, it sums 1 + x and needs no mask. */
void write_masked(const char *path, bool masked);
/* A decoder whose next token is the character behind '@' by the number of tokens so far: its state counts. */
void write_counting(const char *path);
/* The model of KServe's and Triton's examples: input0 UINT32 [2,2], input1 BOOL [3]; output0 FP32 [3,2] is the sums of
 * input0's columns in each row where input1 is true. */
void write_documented(const char *path);
/* A model whose vector of a token is 1 at the token's place. */
void write_vectors(const char *path);
#endif
