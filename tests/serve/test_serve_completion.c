/* /v1/completions: texts as a whole and as events; clients that disconnect. */
#include "client.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "cmocka_all.h"

static struct serving server;

/* Every printable character is a token of its code; <|end|> follows 'y'. */
static void write_tokenizer(const struct serving *serving)
{
    static char text[8192];
    size_t used =
        (size_t)snprintf(text, sizeof text,
                         "{\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
                         "false},\"added_tokens\":[],\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");

    for (int c = '!'; c <= '~'; c++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s%c\":%d", c > '!' ? "," : "",
                                 c == '"' || c == '\\' ? "\\" : "", c, c);
    (void)snprintf(text + used, sizeof text - used, "}}}");
    serving_file(serving, "models/count/tokenizer.json", text, 0644);
    serving_file(serving, "models/vectors/tokenizer.json", text, 0644);
    serving_file(serving, "models/count/config.json",
                 "{\"eos_token_id\": [201, 202, 203, 204, 205, 206, 207, 208, 209, 122]}", 0644);
}

#define MARK "\xe2\x96\x81" /* a space in SentencePiece */

/* A token id that is the code of a character is the token of that character; 1 is a space, 2 is " xy". In the Unigram
 * model 69 is " E". In SentencePiece's BPE model 3 is " x", 67 and 68 are the bytes of an accented e, and other bytes
 * are beyond the model's ids. */
static const char *piece_of(int id, bool unigram, char *out, size_t bytes)
{
    static const char *const first[] = { "<unk>", MARK, MARK "xy", MARK "x" };

    if (id < (unigram ? 3 : 4))
        (void)snprintf(out, bytes, "%s", first[id]);
    else if (unigram && id == 'E')
        (void)snprintf(out, bytes, "%s", MARK "E");
    else if (!unigram && (id == 'C' || id == 'D' || id >= 128))
        (void)snprintf(out, bytes, "<0x%02X>", id == 'C' ? 0xc3 : id == 'D' ? 0xa9 : id - 128);
    else if (id > ' ' && id <= '~')
        (void)snprintf(out, bytes, "%s%c", id == '"' || id == '\\' ? "\\" : "", id);
    else
        (void)snprintf(out, bytes, "<none %d>", id);
    return out;
}

static void write_pieces(const struct serving *serving)
{
    static char text[16384];
    char piece[32];
    size_t used = (size_t)snprintf(
        text, sizeof text,
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"},\"pre_tokenizer\":{"
        "\"type\":\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":\"always\"},\"decoder\":{\"type\":"
        "\"Metaspace\",\"replacement\":\"" MARK "\"},\"added_tokens\":[],\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
        "\"vocab\":[");

    for (int id = 0; id < 128; id++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s[\"%s\",%d]", id > 0 ? "," : "",
                                 piece_of(id, true, piece, sizeof piece), id == 2 ? -4 : -5);
    (void)snprintf(text + used, sizeof text - used, "]}}");
    serving_file(serving, "models/unigram/tokenizer.json", text, 0644);
    used = (size_t)snprintf(
        text, sizeof text,
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" MARK "\"},{"
        "\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK "\"}]},\"pre_tokenizer\":null,"
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK "\"},"
        "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \","
        "\"start\":1,\"stop\":0}]},\"added_tokens\":[],\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_"
        "unk\":"
        "true,\"byte_fallback\":true,\"merges\":[\"" MARK " x\",\"" MARK "x y\"],\"vocab\":{");
    for (int id = 0; id < 128 + 256; id++)
        if (id != 128 + 0xc3 && id != 128 + 0xa9)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\":%d", id > 0 ? "," : "",
                                     piece_of(id, false, piece, sizeof piece), id);
    (void)snprintf(text + used, sizeof text - used, "}}}");
    serving_file(serving, "models/spm/tokenizer.json", text, 0644);
}

/* BERT's tokenizer: words in pieces, [CLS] and [SEP] around a text. */
static const char bert[] =
    "{\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_accents\":"
    "null,\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"post_processor\":{\"type\":"
    "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},{\"Sequence\":{\"id\":"
    "\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{"
    "\"[CLS]\":{\"id\":\"[CLS]\",\"ids\":[2],\"tokens\":[\"[CLS]\"]},\"[SEP]\":{\"id\":\"[SEP]\",\"ids\":[3],"
    "\"tokens\":[\"[SEP]\"]}}},\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\"added_"
    "tokens\":"
    "[],\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
    "\"max_input_chars_per_word\":100,\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,\"un\":4,"
    "\"##want\":5,\"##ed\":6,\"!\":7}}}";

static int start(void **state)
{
    static const char *const flags[] = { "--max-sequences", "4", NULL };
    static const char *const decoders[] = { "count", "unigram", "spm" };

    (void)state;
    serving_prepare(&server);
    for (size_t i = 0; i < sizeof decoders / sizeof *decoders; i++)
        serving_model(&server, decoders[i], "options: [state=old=new]\n", write_counting);
    serving_model(&server, "vectors", NULL, write_vectors);
    serving_model(&server, "bert", NULL, write_vectors);
    serving_file(&server, "models/bert/tokenizer.json", bert, 0644);
    /* A chat template that writes the first letter of each role, and the message. */
    serving_file(
        &server, "models/count/tokenizer_config.json",
        "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"z\",\"chat_template\":[{\"name\":\"default\","
        "\"template\":"
        "\"{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}{{ m.role[0:1] "
        "+ m.content }}{% endfor %}\"}]}",
        0644);
    write_tokenizer(&server);
    write_pieces(&server);
    serving_start(&server, flags);
    return 0;
}

static int end(void **state)
{
    (void)state;
    return serving_close(&server);
}

static void expect(const char *body, int code, const char *part)
{
    client_expect(&server, "POST", "/v1/completions", "", body, code, part);
}

#define ASK(more) "{\"model\":\"count\",\"prompt\":\"xyz\",\"temperature\":0" more "}"

static void test_whole_texts(void **state)
{
    struct answer answer;

    (void)state;
    expect(ASK(",\"max_tokens\":5"), 200, "\"text\":\"CDEFG\",\"logprobs\":null,\"finish_reason\":\"length\"");
    assert_true(client_metric(&server, "inlay_tokens_total{model=\"count\",version=\"1\",kind=\"prompt\"}") == 3);
    assert_true(client_metric(&server, "inlay_tokens_total{model=\"count\",version=\"1\",kind=\"generated\"}") == 5);
    assert_true(client_metric(&server, "inlay_first_token_seconds_count{model=\"count\",version=\"1\"}") == 1);
    expect(ASK(",\"max_tokens\":5"), 200, "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5,\"total_tokens\":8}");
    expect(ASK(",\"max_tokens\":1"), 200, "\"text\":\"C\"");
    expect(ASK(""), 200, "\"text\":\"CDEFGHIJKLMNOPQR\""); /* 16 */
    expect(ASK(",\"max_tokens\":20,\"stop\":\"HI\""), 200,
           "\"text\":\"CDEFG\",\"logprobs\":null,\"finish_reason\":\"stop\"");
    expect(ASK(",\"max_tokens\":20,\"stop\":[\"XX\",\"FG\",\"KL\"]"), 200, "\"text\":\"CDE\"");
    expect(ASK(",\"max_tokens\":100"), 200, "wxy\",\"logprobs\":null,\"finish_reason\":\"stop\""); /* stops at 'z' */
    client_once(&server, "GET", "/v1/models", "", NULL, &answer);
    assert_non_null(strstr(answer.body, "{\"id\":\"count\",\"object\":\"model\""));
}

static void test_rejected_requests(void **state)
{
    (void)state;
    expect("{\"model\":\"none\",\"prompt\":\"x\"}", 404, "no such model");
    expect("{\"model\":\"twice\",\"prompt\":\"x\"}", 400, "not a model for texts");
    expect("{\"model\":\"count\"}", 400, "no prompt");
    expect("{\"prompt\":\"x\"}", 400, "no model");
    expect("{\"model\":\"count\",\"prompt\":\"\"}", 400, "no tokens");
    expect("{\"model\":\"count\",\"prompt\":[1,2]}", 400, "JSON");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"n\":2}", 400, "too large");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"temperature\":-1}", 400, "too small");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"max_tokens\":0}", 400, "too small");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}", 400, "more than 4");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"echo\":true}", 400, "echo");
    expect("{\"model\":\"count\"", 400, "JSON");
    expect("", 400, "JSON");
}

/* Requests a stream, and reads until the connection ends or `part` is received. */
static void stream_at(const char *path, const char *body, const char *part, char *text, size_t bytes)
{
    int fd = client_connect(&server);
    char head[512];
    size_t have = 0;

    (void)snprintf(head, sizeof head,
                   "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n", path,
                   strlen(body));
    client_text(fd, head);
    client_text(fd, body);
    text[0] = '\0';
    while (have < bytes - 1 && (part == NULL || strstr(text, part) == NULL)) {
        ssize_t n = recv(fd, text + have, bytes - 1 - have, 0);

        if (n <= 0)
            break;
        have += (size_t)n;
        text[have] = '\0';
    }
    (void)close(fd);
}

static void stream(const char *body, const char *part, char *text, size_t bytes)
{
    stream_at("/v1/completions", body, part, text, bytes);
}

/* Concatenates the texts of the events. */
static void texts_of(const char *events, char *out, size_t bytes)
{
    size_t used = 0;

    for (const char *at = events; (at = strstr(at, "\"text\":\"")) != NULL;) {
        at += strlen("\"text\":\"");
        used += (size_t)snprintf(out + used, bytes - used, "%.*s", (int)strcspn(at, "\""), at);
    }
    out[used] = '\0';
}

static void test_events(void **state)
{
    static char got[65536];
    char text[256];

    (void)state;
    stream(ASK(",\"max_tokens\":20,\"stream\":true,\"stop\":\"MN\""), NULL, got, sizeof got);
    assert_non_null(strstr(got, "Content-Type: text/event-stream"));
    assert_non_null(strstr(got, "\"text\":\"C\",\"logprobs\":null,\"finish_reason\":null"));
    assert_non_null(strstr(got, "\"finish_reason\":\"stop\"}]}\n\n"));
    assert_non_null(strstr(got, "data: [DONE]\n\n"));
    texts_of(got, text, sizeof text);
    assert_string_equal(text, "CDEFGHIJKL");
    stream(ASK(",\"max_tokens\":0,\"stream\":true"), NULL, got, sizeof got);
    assert_non_null(strstr(got, "HTTP/1.1 400"));
}

static void wait_for(const char *metric, double value)
{
    const struct timespec pause = { 0, 5000000 };

    for (uint32_t i = 0; client_metric(&server, metric) != value; i++) {
        if (i == 12000)
            fail_msg("%s is %g, not %g", metric, client_metric(&server, metric), value);
        (void)nanosleep(&pause, NULL);
    }
}

/* More texts than there are slots: finished and abandoned ones release theirs. */
static void test_abandoned_requests(void **state)
{
    static char got[65536];

    (void)state;
    for (int i = 0; i < 20; i++)
        stream(ASK(",\"max_tokens\":57,\"stream\":true"), i % 2 == 0 ? "\"text\":\"D\"" : "HTTP/1.1", got, sizeof got);
    wait_for("inlay_http_requests", 1);
    for (int i = 0; i < 6; i++)
        expect(ASK(",\"max_tokens\":2"), 200, "\"text\":\"CD\"");
}

static void embed(const char *body, int code, const char *part)
{
    client_expect(&server, "POST", "/v1/embeddings", "", body, code, part);
}

static void test_embeddings(void **state)
{
    (void)state;
    /* '!' is 33, '"' 34, '#' 35: after 33 numbers the vector of "!!!!###" is (4, 0, 3) / 5. */
    embed("{\"model\":\"vectors\",\"input\":\"!!!!###\"}", 200,
          "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
          "0,0,0,0,0,0.8,0,0.6,0,");
    embed("{\"model\":\"vectors\",\"input\":[\"!\",\"#\",\"ab\"]}", 200, "0,0,1,0,");
    embed("{\"model\":\"vectors\",\"input\":[\"!\",\"#\",\"ab\"]}", 200, "{\"object\":\"embedding\",\"index\":2,");
    embed("{\"model\":\"vectors\",\"input\":[\"!\",\"#\",\"ab\"]}", 200,
          "\"model\":\"vectors\",\"usage\":{\"prompt_tokens\":4,\"total_tokens\":4}}");
    embed("{\"model\":\"vectors\",\"input\":[\"a\",\"\"]}", 400, "input 1 has no tokens");
    embed("{\"model\":\"vectors\",\"input\":\"a\",\"encoding_format\":\"base64\"}", 400, "other than float");
    embed("{\"model\":\"vectors\",\"input\":7}", 400, "JSON");
    embed("{\"model\":\"vectors\"}", 400, "no input");
    embed("{\"model\":\"count\",\"input\":\"a\"}", 400, "not an embedding model");
    embed("{\"model\":\"none\",\"input\":\"a\"}", 404, "no such model");
    expect("{\"model\":\"vectors\",\"prompt\":\"x\"}", 400, "not a model for texts");
}

#define CHAT(more) "{\"model\":\"count\",\"temperature\":0,\"messages\":[" more "}"

static void test_chats(void **state)
{
    static const struct {
        const char *body, *part;
        int code;
    } rows[] = {
        { CHAT("{\"role\":\"user\",\"content\":\"xy\"}],\"max_tokens\":5"), "\"object\":\"chat.completion\"", 200 },
        { CHAT("{\"role\":\"user\",\"content\":\"xy\"}],\"max_tokens\":5"),
          "\"message\":{\"role\":\"assistant\",\"content\":\"CDEFG\"},\"logprobs\":null,\"finish_reason\":\"length\"",
          200 },
        { CHAT("{\"content\":\"x\",\"role\":\"system\",\"name\":1},{\"role\":\"user\",\"content\":[{\"type\":\"text\","
               "\"text\":"
               "\"\\u0078\"},{\"type\":\"text\",\"text\":\"y\"}]}],\"max_completion_tokens\":2"),
          "\"content\":\"EF\"}", 200 },
        { CHAT("{\"role\":\"user\",\"content\":\"xy\"}]"), "uvwxy\"},\"logprobs\":null,\"finish_reason\":\"stop\"",
          200 },
        { CHAT("{\"role\":\"tool\",\"content\":null}]"), "refuses the messages: no tools", 400 },
        { CHAT("]"), "no messages", 400 },
        { CHAT("{\"role\":\"user\"}]"), "without role or content", 400 },
        { CHAT("{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}]"), "not a text", 400 },
        { CHAT("{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[]"), "not supported", 400 },
        { "{\"model\":\"vectors\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "not a model for texts",
          400 },
        { "{\"model\":\"count\",\"prompt\":\"x\"}", "no messages", 400 },
    };

    static char events[65536];

    (void)state;
    stream_at("/v1/chat/completions", CHAT("{\"role\":\"user\",\"content\":\"xy\"}],\"max_tokens\":2,\"stream\":true"),
              NULL, events, sizeof events);
    assert_non_null(strstr(events, "\"object\":\"chat.completion.chunk\""));
    assert_non_null(strstr(
        events, "\"delta\":{\"role\":\"assistant\",\"content\":\"C\"},\"logprobs\":null,\"finish_reason\":null"));
    assert_non_null(strstr(events, "\"delta\":{\"content\":\"D\"},\"logprobs\":null,\"finish_reason\":\"length\""));
    assert_non_null(strstr(events, "data: [DONE]"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        client_expect(&server, "POST", "/v1/chat/completions", "", rows[i].body, rows[i].code, rows[i].part);
}

/* "Unwanted!" is [CLS] un ##want ##ed ! [SEP]. */
static void test_word_pieces(void **state)
{
    (void)state;
    embed("{\"model\":\"bert\",\"input\":\"Unwanted!\"}", 200,
          "[0,0,0.40824829,0.40824829,0.40824829,0.40824829,0.40824829,0.40824829,0,");
    embed("{\"model\":\"bert\",\"input\":\"Unwanted!\"}", 200, "\"prompt_tokens\":6,");
    embed("{\"model\":\"bert\",\"input\":\"what\"}", 200, "[0,0.57735027,0.57735027,0.57735027,0,");
}

/* The prompt determines where the model starts to count: pieces and bytes are tokens, spaces part of them. */
static void test_sentence_pieces(void **state)
{
    static const struct {
        const char *body, *part;
    } rows[] = {
#define OF(model, prompt, more) "{\"model\":\"" model "\",\"prompt\":\"" prompt "\",\"temperature\":0" more "}"
        { OF("unigram", "xy", ",\"max_tokens\":6"), "\"text\":\"ABCD EF\"" }, /* " xy" is one token */
        { OF("unigram", "xy", ",\"max_tokens\":6"), "\"prompt_tokens\":1,\"completion_tokens\":6" },
        { OF("unigram", "x  xyz", ",\"max_tokens\":2"), "\"text\":\"D E\"" },             /* " ", "x", " xy", "z" */
        { OF("unigram", "\\u00e9\\u00e9", ",\"max_tokens\":1"), "\"prompt_tokens\":2," }, /* " ", unknown */
        { OF("unigram", "xy", ",\"max_tokens\":9,\"stop\":\"D E\""), "\"text\":\"ABC\"" },
        { OF("spm", "xy", ",\"max_tokens\":5"), "\"text\":\"AB\xc3\xa9"
                                                "E\"" },
        { OF("spm", "x xy", ",\"max_tokens\":3"), "\"text\":\"B\xc3\xa9\"" }, /* " x", " xy" */
        { OF("spm", "xy\\u00e9", ",\"max_tokens\":3"), "\"text\":\"\xc3\xa9"
                                                       "E\"" }, /* " xy", two bytes */
        { OF("spm", "xy\\u00e8", ",\"max_tokens\":3"), "\"prompt_tokens\":3," },
        { OF("spm", "xy", ",\"max_tokens\":9,\"stop\":\"\\u00e9\""), "\"text\":\"AB\"" },
    };
    static char events[65536];
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect(rows[i].body, 200, rows[i].part);
    stream(OF("spm", "xy", ",\"max_tokens\":5,\"stream\":true"), NULL, events, sizeof events);
    assert_non_null(strstr(events, "\"text\":\"\xc3\xa9\"")); /* both bytes in one event */
    texts_of(events, text, sizeof text);
    assert_string_equal(text, "AB\xc3\xa9"
                              "E");
}

static void *ask_many(void *user)
{
    static char got[4][65536];
    char text[256];

    for (int i = 0; i < 10; i++) {
        char *mine = got[(size_t)user];

        stream(ASK(",\"max_tokens\":30,\"stream\":true"), NULL, mine, sizeof got[0]);
        texts_of(mine, text, sizeof text);
        if (strcmp(text, "CDEFGHIJKLMNOPQRSTUVWXYZ[\\\\]^_`") != 0)
            return strdup(mine);
    }
    return NULL;
}

/* Concurrent texts have separate states. */
static void test_concurrent_texts(void **state)
{
    pthread_t threads[4];

    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_many, (void *)i), 0);
    for (size_t i = 0; i < 4; i++) {
        void *wrong;

        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        if (wrong != NULL)
            fail_msg("another text came: %s", (char *)wrong);
    }
}

/* Three models with memory for two. */
static int start_small(void **state)
{
    const char *flags[] = { "--max-sequences", "4", "--models-memory", NULL, NULL };
    char budget[32];

    (void)state;
    serving_prepare_empty(&server);
    serving_folder(&server, "models/count");
    serving_model(&server, "count", "options: [state=old=new]\n", write_counting);
    serving_model(&server, "vectors", NULL, write_vectors);
    serving_model(&server, "bert", NULL, write_vectors);
    serving_file(&server, "models/bert/tokenizer.json", bert, 0644);
    write_tokenizer(&server);
    serving_start(&server, NULL);
    (void)snprintf(budget, sizeof budget, "%.0f", client_metric(&server, "inlay_models_bytes") - 1);
    assert_int_equal(serving_end(&server, SIGTERM), 0);
    flags[3] = budget;
    serving_start(&server, flags);
    return 0;
}

static void expect_asleep(const char *model)
{
    struct answer answer;
    char part[96];

    client_once(&server, "POST", "/v2/repository/index", "", "", &answer);
    (void)snprintf(part, sizeof part, "{\"name\":\"%s\",\"version\":\"1\",\"state\":\"UNAVAILABLE\"", model);
    assert_non_null(strstr(answer.body, part));
    client_once(&server, "GET", "/v1/models", "", NULL, &answer);
    (void)snprintf(part, sizeof part, "{\"id\":\"%s\"", model);
    assert_non_null(strstr(answer.body, part));
}

/* Uses the other models, so that `count` is unloaded. */
static void make_count_sleep(void)
{
    embed("{\"model\":\"vectors\",\"input\":\"a\"}", 200, "\"embedding\":");
    embed("{\"model\":\"bert\",\"input\":\"un\"}", 200, "\"embedding\":");
    expect_asleep("count");
}

/* A text wakes the model that it needs: as a whole, as events, as vectors; a client that leaves meanwhile. */
static void test_texts_wake_models(void **state)
{
    static const char events[] = ASK(",\"max_tokens\":5,\"stream\":true");
    static char text[65536];
    char whole[512];
    int fd;

    (void)state;
    expect_asleep("vectors"); /* it was never loaded */
    make_count_sleep();
    expect(ASK(",\"max_tokens\":5"), 200, "\"text\":\"CDEFG\"");
    make_count_sleep();
    stream(events, NULL, text, sizeof text);
    texts_of(text, whole, sizeof whole);
    assert_string_equal(whole, "CDEFG");
    assert_non_null(strstr(text, "data: [DONE]"));
    make_count_sleep();
    expect("{\"model\":\"count\",\"prompt\":\"\"}", 400, "no tokens"); /* found after the model was loaded */
    make_count_sleep();
    fd = client_connect(&server);
    (void)snprintf(text, sizeof text,
                   "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", strlen(events),
                   events);
    client_text(fd, text);
    (void)close(fd);
    expect(ASK(",\"max_tokens\":5"), 200, "\"text\":\"CDEFG\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_texts),      cmocka_unit_test(test_rejected_requests),
        cmocka_unit_test(test_events),           cmocka_unit_test(test_abandoned_requests),
        cmocka_unit_test(test_concurrent_texts), cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_word_pieces),      cmocka_unit_test(test_chats),
        cmocka_unit_test(test_sentence_pieces),
    };

    const struct CMUnitTest small[] = { cmocka_unit_test(test_texts_wake_models) };
    int failed;

    (void)signal(SIGPIPE, SIG_IGN);
    failed = cmocka_run_group_tests(tests, start, end);
    return failed + cmocka_run_group_tests(small, start_small, end);
}
