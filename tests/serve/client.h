/* client.h - starts inlay-serve for a test; a simple HTTP client that can send arbitrary bytes. */
#ifndef SERVE_CLIENT_H
#define SERVE_CLIENT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct serving {
    char folder[64]; /* the test's folder, removed at the end; models/ contains those of write_models() */
    pid_t pid;
    int port;
};

/* Creates the folder of the test and the models of write_models(). */
void serving_prepare(struct serving *serving);
/* Creates the folder without models. */
void serving_prepare_empty(struct serving *serving);
/* Writes a file in the folder. */
void serving_file(const struct serving *serving, const char *name, const char *text, int mode);
/* Copies a file into the folder. */
void serving_copy(const struct serving *serving, const char *from, const char *name);
/* Writes the files `tokens` and `admins`, with one token each; AS_USER and AS_ADMIN are the matching headers. */
void serving_tokens(const struct serving *serving);
#define USER_TOKEN "user-0123456789abcdef"
#define ADMIN_TOKEN "admin-0123456789abcdef"
#define AS_USER "Authorization: Bearer " USER_TOKEN "\r\n"
#define AS_ADMIN "Authorization: Bearer " ADMIN_TOKEN "\r\n"
/* Writes a tokenizer.json for a model: each printable character is a token, whose id is the character's code; token 1
 * is the special token of this text, NULL: there is none. */
void serving_tokenizer(const struct serving *serving, const char *model, const char *special);
/* Creates version 1 of a model with one of the functions below, and its config.yaml unless that is NULL. */
void serving_model(const struct serving *serving, const char *name, const char *config,
                   void (*write)(const char *path));
/* A variant of a model package: its file is VARIANT.onnx. */
struct packed {
    const char *variant;
    double error;
};
/* Creates the package models/NAME with these variants [count], whose files the caller writes, and its config.yaml
 * unless that is NULL. */
void serving_package(const struct serving *serving, const char *name, const char *config, const struct packed *variants,
                     uint32_t count);
/* Creates the folder `plugins` with this file as NAME.so. */
void serving_plugin(const struct serving *serving, const char *from, const char *name);
/* Creates a folder, and its parents, in the test's folder. */
void serving_folder(const struct serving *serving, const char *name);
/* Returns the path of a file in the folder. */
const char *serving_path(const struct serving *serving, const char *name, char *path, size_t bytes);
/* Starts the server with these flags (NULL-terminated; a leading FOLDER/ is replaced by the folder) and waits until
 * it is ready. */
void serving_start(struct serving *serving, const char *const *flags);
/* serving_prepare() and serving_start(). */
void serving_open(struct serving *serving, const char *const *flags);
/* The parts of serving_start(): starts the server; waits until its log contains `part`, and reads the log into text. */
void serving_spawn(struct serving *serving, const char *const *flags);
void serving_await(const struct serving *serving, const char *part, char *text, size_t bytes);
/* Sends a signal and returns the exit code, -1 if a signal ended the server; fails the test after a minute. */
int serving_end(struct serving *serving, int signal_number);
void serving_remove(struct serving *serving);
/* Ends the server by SIGTERM and removes the folder; returns the exit code. */
int serving_close(struct serving *serving);
/* Tear-downs of tests whose state is their struct serving: serving_close(); serving_remove(). */
int serving_tear_down(void **state);
int serving_tear_away(void **state);
/* Reads the start of the server's log, or its end. */
void serving_log(const struct serving *serving, bool end, char *text, size_t bytes);
/* Returns the number of child processes of the server, including zombies, and stores their ids. */
uint32_t serving_children(const struct serving *serving, long *pids, uint32_t room);
/* serving_files(): the number of open files of the server; serving_memory(): its resident memory in bytes. */
uint32_t serving_files(const struct serving *serving);
uint64_t serving_memory(const struct serving *serving);

struct answer {
    int code;        /* 0: the connection ended without an answer */
    char head[2048]; /* status line and headers */
    char body[524288];
    size_t body_bytes; /* body[body_bytes] is '\0' */
};

int client_connect(const struct serving *serving);
/* A port of the loopback interface that no socket uses. */
int client_free_port(void);
/* Seconds of the monotonic clock. */
double client_seconds(void);
void client_wait_ms(long ms);
void client_send(int fd, const void *data, size_t bytes);
void client_text(int fd, const char *text);
/* Reads one answer. */
void client_receive(int fd, struct answer *out);
/* Sends a request on a persistent connection. headers: lines that end in \r\n, may be "". body may be NULL. */
void client_call(int fd, const char *method, const char *path, const char *headers, const void *body, size_t bytes,
                 struct answer *out);
/* Sends a request on a new connection. */
void client_once(const struct serving *serving, const char *method, const char *path, const char *headers,
                 const char *body, struct answer *out);
/* Sends a request on a new connection; fails the test unless the answer has this code, and `part` in its body. */
void client_expect(const struct serving *serving, const char *method, const char *path, const char *headers,
                   const char *body, int code, const char *part);
/* Sends a request on a new connection, and reads its answer as it comes, with the header: until the connection ends or
 * `part` is received (NULL: none). The chunks of its body are joined. */
void client_stream(const struct serving *serving, const char *path, const char *body, const char *part, char *text,
                   size_t bytes);
/* Returns the value of a header, or NULL. */
const char *answer_header(const struct answer *answer, const char *name, char *value, size_t bytes);
/* Returns the metric of this name with its labels from /metrics; -1 if missing. */
double client_metric(const struct serving *serving, const char *name);
/* Metrics of version 1 of a text model: guessed tokens of a kind ("read" or "right"), and cached
 * tokens. */
double client_guessed_tokens(const struct serving *serving, const char *model, const char *kind);
double client_cached_tokens(const struct serving *serving, const char *model);
/* Waits until the metric has this value; fails the test after a minute. */
void client_await(const struct serving *serving, const char *name, double value);

/* models.c: twice [N,3] = 2x, batchable; triple/1 and triple/2 (versions: 2x and 4x); id_<DATATYPE> [N]; spin (n:
 * INT64, x [4,4]): a loop of n iterations; pair (a [N,2], b [N,2]) = a + b. */
void write_models(const char *folder);
/* A model with input and output [N,3] that doubles its input `times` times. */
void write_doubling(const char *path, uint32_t times);
/* A model y = Relu(x) of the shape [2], whose output and node are called `name`. */
void write_relu(const char *path, const char *name);
/* A model y = op(x) of floats with this shape, as "N,3". */
void write_one(const char *path, const char *op, const char *dims);
/* A model of one number: y = new = old + x; `old` and `new` are its state. */
void write_sum(const char *path);
/* As write_sum(), with this operator instead of Add. */
void write_sum_by(const char *path, const char *op);
/* A model y = new = old + |x| with a loop of n iterations. */
void write_slow_sum(const char *path);
/* A model hidden = x * mask [N,S], total = the sum of hidden [N,1]; unless masked, it sums 1 + x and needs no mask. */
void write_masked(const char *path, bool masked);
/* A decoder whose state counts the tokens: its next token is the character '@' + number of tokens so far. */
void write_counting(const char *path);
/* Repeats the last token; its logits are quantized, of which a session warns. State past_key becomes new. */
void write_rounding_decoder(const char *path);
/* A decoder that says `saying` after a prompt of 40 tokens, which are codes of characters, and then 'z'. */
void write_saying(const char *path);
extern const char *saying;
/* A decoder that says the last `tokens` tokens again and again: those of its prompt, if that is long enough. */
void write_repeating(const char *path, int64_t tokens);
/* Decoders of one layer with random weights, 128 tokens and states of 128 bytes per token: with GroupQueryAttention,
 * which counts the tokens of each row by the mask; with Attention-23, whose mask hides tokens. */
void write_counted_decoder(const char *path);
/* Adds these matrices [16, 16] to the weights to_q and to_v of the decoders that are written from now on; NULL:
 * none. */
void write_decoders_with(const float *to_q, const float *to_v);
void write_masked_decoder(const char *path);
/* A decoder whose state is the sum of the tokens, which does not grow; its next token is the sum modulo 90, plus 33. */
void write_summing_decoder(const char *path);
/* A decoder of one layer, whose attention gives each token twice the weight of the one before; output hidden_states is
 * that of the attention. With layers: outputs hidden_states.0, and hidden_states.7 for that of the attention. */
void write_hidden_decoder(const char *path);
void write_half_decoder(const char *path); /* the output is in float16 */
void write_layers_decoder(const char *path);
/* As write_half_decoder(), but with an embedding in 8 bits, and the logits are a product of the hidden states that an
 * operator limits: tanh(x / 30) 30. */
void write_limited_decoder(const char *path, const char *limiter);
void write_tanh_decoder(const char *path);
/* Heads that compute the next hidden state of that decoder, and so its next token: from the hidden state and a token,
 * without states; from states of all tokens. Of the decoder with layers: with an input of its own hidden states and an
 * output d2t; without both, so that it makes one guess, with the tokens from '!' to '~' (94). */
void write_mtp_head(const char *path);
void write_half_head(const char *path); /* in float16 */
void write_eagle_head(const char *path);
void write_eagle3_head(const char *path);
void write_single_head(const char *path);
/* Heads that read the embedding of the token, which the model has: of the decoder with layers, with its own logits in
 * float16; of the limited one, without the product that makes logits. */
void write_lookup_head(const char *path);
void write_shared_head(const char *path);
void write_bare_head(const char *path, int64_t opset); /* as write_shared_head(), with this version of operators */
/* A head with another input, which is not supplied. */
void write_wrong_head(const char *path, const char *input);
/* The model of KServe's and Triton's examples: input0 UINT32 [2,2], input1 BOOL [3]; output0 FP32 [3,2] has the sums
 * of input0's columns in each row where input1 is true. */
void write_documented(const char *path);
/* An embedding model that maps a token to the vector with 1 at the token's index and 0 elsewhere. */
void write_vectors(const char *path);
#endif
