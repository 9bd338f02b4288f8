/* /v1/completions: texts as a whole and as events; clients that disconnect. */
#include "client.h"
#include <fcntl.h>
#include <math.h>
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
    serving_tokenizer(serving, "count", NULL);
    serving_tokenizer(serving, "vectors", NULL);
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

/* Forms of pooling, and the vector of the word pieces [CLS] un ##want ##ed [SEP], ids 2 to 6 without 7. */
static const struct {
    const char *name, *mode, *vector;
} pooled[] = { { "first", "pooling_mode_cls_token", "[0,0,1,0,0,0,0,0" },
               { "last", "pooling_mode_lasttoken", "[0,0,0,1,0,0,0,0" },
               { "most", "pooling_mode_max_tokens", "[0,0,1,1,1,1,1,0" },
               { "mean", "pooling_mode_mean_tokens",
                 "[0,0,0.200000003,0.200000003,0.200000003,0.200000003,0.200000003,0" } };

static void write_six(const char *path)
{
    write_repeating(path, 6);
}

static void write_five(const char *path)
{
    write_repeating(path, 5);
}

static int start(void **state)
{
    static const char *const flags[] = { "--max-sequences", "4", NULL };
    static const char *const decoders[] = { "count", "unigram", "spm" };

    *state = &server;
    serving_prepare(&server);
    for (size_t i = 0; i < sizeof decoders / sizeof *decoders; i++)
        serving_model(&server, decoders[i], "options: [state=old=new]\n", write_counting);
    serving_model(&server, "vectors", NULL, write_vectors);
    serving_model(&server, "bert", NULL, write_vectors);
    serving_file(&server, "models/bert/tokenizer.json", bert, 0644);
    for (size_t i = 0; i < sizeof pooled / sizeof *pooled; i++) {
        char path[128], text[128];

        serving_model(&server, pooled[i].name, NULL, write_vectors);
        (void)snprintf(path, sizeof path, "models/%s/tokenizer.json", pooled[i].name);
        serving_file(&server, path, bert, 0644);
        (void)snprintf(path, sizeof path, "models/%s/1_Pooling", pooled[i].name);
        serving_folder(&server, path);
        (void)snprintf(path, sizeof path, "models/%s/1_Pooling/config.json", pooled[i].name);
        (void)snprintf(text, sizeof text, "{\"pooling_mode_mean_tokens\":false,\"%s\":true}", pooled[i].mode);
        serving_file(&server, path, text, 0644);
        (void)snprintf(path, sizeof path, "models/%s/modules.json", pooled[i].name);
        serving_file(&server, path, "[{\"type\":\"sentence_transformers.models.Pooling\"}]", 0644);
    }
    /* A chat template that writes the first letter of each role, and the message. */
    serving_file(
        &server, "models/count/tokenizer_config.json",
        "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"z\",\"chat_template\":[{\"name\":\"default\","
        "\"template\":"
        "\"{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}{{ m.role[0:1] "
        "+ m.content }}{% endfor %}\"}]}",
        0644);
    serving_file(&server, "models/unigram/config.json", "{\"max_position_embeddings\":100}", 0644);
    serving_file(&server, "models/most/config.json", "{\"max_position_embeddings\":100}", 0644);
    write_tokenizer(&server);
    write_pieces(&server);
    serving_model(&server, "qwen", "options: [state=old=new]\n", write_six);
    serving_tokenizer(&server, "qwen", "<|fim_prefix|> <|fim_suffix|> <|fim_middle|> <|endoftext|>");
    serving_model(&server, "codestral", "options: [state=old=new]\n", write_five);
    serving_tokenizer(&server, "codestral", "[PREFIX] [SUFFIX]");
    serving_start(&server, flags);
    return 0;
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
    expect(ASK(",\"max_tokens\":5"), 200,
           "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5,\"total_tokens\":8,\"prompt_tokens_details\":{"
           "\"cached_tokens\":0}}");
    expect(ASK(",\"max_tokens\":1"), 200, "\"text\":\"C\"");
    expect(ASK(""), 200, "\"text\":\"CDEFGHIJKLMNOPQR\""); /* 16 */
    expect(ASK(",\"max_tokens\":20,\"stop\":\"HI\""), 200,
           "\"text\":\"CDEFG\",\"logprobs\":null,\"finish_reason\":\"stop\"");
    expect(ASK(",\"max_tokens\":20,\"stop\":[\"XX\",\"FG\",\"KL\"]"), 200, "\"text\":\"CDE\"");
    expect(ASK(",\"max_tokens\":100"), 200, "wxy\",\"logprobs\":null,\"finish_reason\":\"stop\""); /* stops at 'z' */
    client_once(&server, "GET", "/v1/models", "", NULL, &answer);
    assert_non_null(strstr(answer.body, "{\"id\":\"count\",\"object\":\"model\""));
}

static double router_figure(const char *name)
{
    char series[160];

    (void)snprintf(series, sizeof series, "vllm:%s{model_name=\"count\"}", name);
    return client_metric(&server, series);
}

/* What the endpoint picker of the Gateway API Inference Extension and other routers read, by vLLM's names. */
static void test_router_figures(void **state)
{
    static const char *const used[] = { "kv_cache_usage_perc", "prefix_cache_hits_total", "prefix_cache_queries_total",
                                        "prompt_tokens_total", "e2e_request_latency_seconds_count" };
    double tokens, first, next;
    struct answer answer;

    (void)state;
    expect(ASK(",\"max_tokens\":1"), 200, "\"text\":\"C\"");
    tokens = router_figure("generation_tokens_total");
    first = router_figure("time_to_first_token_seconds_count");
    next = router_figure("inter_token_latency_seconds_count");
    assert_true(first > 0 && tokens > 0 && next >= 0);
    expect(ASK(",\"max_tokens\":5"), 200, "\"text\":\"CDEFG\"");
    assert_true(router_figure("generation_tokens_total") == tokens + 5);
    assert_true(router_figure("time_to_first_token_seconds_count") == first + 1);
    assert_true(router_figure("inter_token_latency_seconds_count") == next + 4);
    assert_true(router_figure("time_per_output_token_seconds_count") == next + 4);
    assert_true(router_figure("num_requests_running") == 0 && router_figure("num_requests_waiting") == 0);
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        assert_true(router_figure(used[i]) >= 0);
    client_once(&server, "GET", "/metrics", "", NULL, &answer);
    assert_non_null(strstr(answer.body, "vllm:lora_requests_info{model_name=\"count\",max_lora=\"0\",running_lora_"
                                        "adapters=\"\",waiting_lora_adapters=\"\"} "));
    assert_null(strstr(answer.body, "vllm:num_requests_running{model_name=\"twice\"}"));
    client_once(&server, "GET", "/v1/models/count", "", NULL, &answer);
    assert_non_null(strstr(answer.body, "\"root\":\"count\""));
}

static void test_rejected_requests(void **state)
{
    (void)state;
    expect("{\"model\":\"none\",\"prompt\":\"x\"}", 404, "no such model");
    expect("{\"model\":\"twice\",\"prompt\":\"x\"}", 400, "not a model for texts");
    expect("{\"model\":\"count\"}", 400, "no prompt");
    expect("{\"prompt\":\"x\"}", 400, "no model");
    expect("{\"model\":\"count\",\"prompt\":\"\"}", 400, "no tokens");
    expect("{\"model\":\"count\",\"prompt\":[65,999]}", 400, "no token 999");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"n\":200}", 400, "too large");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"temperature\":-1}", 400, "too small");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"max_tokens\":0}", 400, "too small");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}", 400, "more than 4");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"echo\":true,\"logprobs\":1}", 400, "echo");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"logit_bias\":{\"99999999\":1}}", 400, "no token 99999999");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"stop_token_ids\":[-1]}", 400, "no token -1");
    expect("{\"model\":\"count\",\"prompt\":\"x\",\"min_tokens\":20}", 400, "larger than max_tokens");
    expect("{\"model\":\"count\"", 400, "JSON");
    expect("", 400, "JSON");
}

/* Texts that no model could take are not split into tokens; others that exceed the context are. */
static void test_long_texts(void **state)
{
    static char body[20100];
    static const char start_of_prompt[] = "{\"model\":\"unigram\",\"prompt\":\"",
                      start_of_input[] = "{\"model\":\"most\",\"input\":\"";

    (void)state;
    (void)snprintf(body, sizeof body, "%s%0*d\"}", start_of_prompt, 20000, 0);
    expect(body, 400, "the prompt has 20000 bytes, and the model takes at most");
    expect(body, 400, "\"code\":\"context_length_exceeded\"");
    (void)snprintf(body, sizeof body, "%s%0*d\"}", start_of_prompt, 150, 0);
    expect(body, 400, "the prompt has 1");
    expect(body, 400, "tokens, and the model's context, with the reply, 100");
    (void)snprintf(body, sizeof body, "%s%0*d\"}", start_of_input, 20000, 0);
    client_expect(&server, "POST", "/v1/embeddings", "", body, 400, "input 0 has 20000 bytes");
}

/* The prompt of a text between two others has the tokens of the model's form, in its order. The models repeat them. */
static void test_infill(void **state)
{
#define FILL(model, prompt, suffix, more)                                                                              \
    "{\"model\":\"" model "\",\"prompt\":" prompt ",\"suffix\":\"" suffix "\",\"temperature\":0,\"max_tokens\":6" more \
    "}"
#define STOP(token) ",\"stop_token_ids\":[" token "]"
    static const struct {
        const char *body, *part;
    } rows[] = {
        { FILL("qwen", "\"ab\"", "c", ""), "\"text\":\"abc\",\"logprobs\":null,\"finish_reason\":\"length\"" },
        { FILL("qwen", "\"ab\"", "c", ""), "\"prompt_tokens\":6," },
        { FILL("qwen", "\"ab\"", "c", STOP("1")), "\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"stop\"" },
        { FILL("qwen", "\"ab\"", "c", STOP("2")), "\"text\":\"ab\",\"logprobs\":null,\"finish_reason\":\"stop\"" },
        { FILL("qwen", "\"ab\"", "c", STOP("3")), "\"text\":\"abc\",\"logprobs\":null,\"finish_reason\":\"stop\"" },
        { FILL("qwen", "\"a<|endoftext|>\"", "c", ""), /* ends the text, although the model does not say so */
          "\"text\":\"a\",\"logprobs\":null,\"finish_reason\":\"stop\"" },
        { FILL("qwen", "[\"ab\",\"cd\"]", "e", ""), "\"text\":\"cde\"" },
        { FILL("codestral", "\"ab\"", "c", ""), "\"text\":\"cab\"" },
        { FILL("codestral", "\"ab\"", "c", STOP("2")), "\"text\":\"\"" },
        { FILL("codestral", "\"ab\"", "c", STOP("1")), "\"text\":\"c\"" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect(rows[i].body, 200, rows[i].part);
    expect(FILL("qwen", "[97,98]", "c", ""), 400, "suffix needs prompts that are texts, not tokens");
    expect(FILL("qwen", "\"ab\"", "c", ",\"echo\":true"), 400, "echo is not supported together with suffix");
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

/* More texts than there are slots: finished and abandoned ones release theirs. */
static void test_abandoned_requests(void **state)
{
    static char got[65536];

    (void)state;
    for (int i = 0; i < 20; i++)
        stream(ASK(",\"max_tokens\":57,\"stream\":true"), i % 2 == 0 ? "\"text\":\"D\"" : "HTTP/1.1", got, sizeof got);
    client_await(&server, "inlay_http_requests", 1);
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
          "0,0,0,0,0,0.800000012,0,0.600000024,0,");
    embed("{\"model\":\"vectors\",\"input\":[\"!\",\"#\",\"ab\"]}", 200, "0,0,1,0,");
    embed("{\"model\":\"vectors\",\"input\":[\"!\",\"#\",\"ab\"]}", 200, "{\"object\":\"embedding\",\"index\":2,");
    embed("{\"model\":\"vectors\",\"input\":[\"!\",\"#\",\"ab\"]}", 200,
          "\"model\":\"vectors\",\"usage\":{\"prompt_tokens\":4,\"total_tokens\":4}}");
    embed("{\"model\":\"vectors\",\"input\":[\"a\",\"\"]}", 400, "input 1 has no tokens");
    embed("{\"model\":\"vectors\",\"input\":\"a\",\"encoding_format\":\"hex\"}", 400, "'hex' is not supported");
    embed("{\"model\":\"vectors\",\"input\":7}", 400, "neither a text nor tokens");
    embed("{\"model\":\"vectors\"}", 400, "no input");
    embed("{\"model\":\"count\",\"input\":\"a\"}", 400, "not an embedding model");
    embed("{\"model\":\"none\",\"input\":\"a\"}", 404, "no such model");
    expect("{\"model\":\"vectors\",\"prompt\":\"x\"}", 400, "not a model for texts");
}

/* Similarities by the vectors of test_embeddings(): each character is a dimension. */
static void test_similarity(void **state)
{
    (void)state;
    client_expect(&server, "POST", "/v1/rerank", "",
                  "{\"model\":\"vectors\",\"query\":\"ab\",\"documents\":[\"cd\",\"ab\",{\"text\":\"ac\"}]}", 200,
                  "\"results\":[{\"index\":1,\"document\":{\"text\":\"ab\"},\"relevance_score\":1},"
                  "{\"index\":2,\"document\":{\"text\":\"ac\"},\"relevance_score\":0.5},{\"index\":0,");
    client_expect(
        &server, "POST", "/v1/rerank", "",
        "{\"model\":\"vectors\",\"documents\":[\"cd\",\"ab\"],\"query\":\"ab\",\"top_n\":1,\"return_documents\":false}",
        200, "\"results\":[{\"index\":1,\"relevance_score\":1}]}");
    client_expect(
        &server, "POST", "/v1/score", "", "{\"model\":\"vectors\",\"text_1\":\"ab\",\"text_2\":[\"ab\",\"xy\"]}", 200,
        "\"data\":[{\"index\":0,\"object\":\"score\",\"score\":1},{\"index\":1,\"object\":\"score\",\"score\":0}]");
    client_expect(&server, "POST", "/v1/score", "",
                  "{\"model\":\"vectors\",\"text_1\":[\"ab\",\"c\"],\"text_2\":[\"cd\",\"c\"]}", 200,
                  "{\"index\":0,\"object\":\"score\",\"score\":0},{\"index\":1,\"object\":\"score\",\"score\":1}");
    client_expect(&server, "POST", "/v1/score", "",
                  "{\"model\":\"vectors\",\"text_1\":[\"a\",\"b\"],\"text_2\":[\"c\"]}", 400, "as many texts");
    for (int i = 0; i < 2; i++) /* paths of other servers */
        client_expect(&server, "POST", i == 0 ? "/rerank" : "/v2/rerank", "",
                      "{\"model\":\"vectors\",\"query\":\"a\",\"documents\":[\"a\"]}", 200, "\"relevance_score\":1");
    client_expect(&server, "POST", "/score", "", "{\"model\":\"vectors\",\"text_1\":\"a\",\"text_2\":\"a\"}", 200,
                  "\"score\":1");
    client_expect(&server, "GET", "/v1/health", "", NULL, 200, "\"status\":\"ok\"");
    client_expect(&server, "GET", "/ping", "", NULL, 200, "\"status\":\"ok\"");
    client_expect(&server, "POST", "/v1/rerank", "", "{\"model\":\"vectors\",\"query\":\"a\"}", 400,
                  "\"param\":\"documents\"");
    client_expect(&server, "POST", "/v1/rerank", "", "{\"model\":\"count\",\"query\":\"a\",\"documents\":[\"b\"]}", 400,
                  "not an embedding model");
}

static void test_tokens(void **state)
{
    (void)state;
    client_expect(&server, "POST", "/tokenize", "", "{\"model\":\"count\",\"prompt\":\"xyz\"}", 200,
                  "{\"count\":3,\"max_model_len\":0,\"tokens\":[120,121,122]}");
    client_expect(&server, "POST", "/tokenize", "",
                  "{\"model\":\"bert\",\"content\":\"unwanted\",\"add_special\":false}", 200, "\"tokens\":[4,5,6]");
    client_expect(&server, "POST", "/detokenize", "", "{\"model\":\"count\",\"tokens\":[120,121]}", 200,
                  "{\"prompt\":\"xy\",\"content\":\"xy\"}");
    client_expect(&server, "POST", "/detokenize", "", "{\"model\":\"count\",\"tokens\":[99999]}", 400,
                  "no token 99999");
    client_expect(&server, "POST", "/tokenize", "", "{\"model\":\"twice\",\"prompt\":\"x\"}", 404, "no such model");
    client_expect(&server, "POST", "/tokenize", "", "{\"prompt\":\"x\"}", 404, "no such model"); /* there are several */
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
        { CHAT("{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}]"), "of type image_url",
          400 },
        { CHAT("{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{}]"), "not supported", 400 },
        { "{\"model\":\"vectors\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "not a model for texts",
          400 },
        { "{\"model\":\"count\"}", "no messages", 400 },
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

/* Requests as OpenAI's clients write them: every parameter has its effect, or is refused by name. */
static void test_parameters(void **state)
{
#define TEXT(more) "{\"model\":\"count\",\"prompt\":\"xyz\",\"max_tokens\":3,\"temperature\":0" more "}"
#define SAY(more)                                                                                                      \
    "{\"model\":\"count\",\"max_tokens\":2,\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":\"xy\"}"     \
    "]" more "}"
#define REFUSED(name) "\"type\":\"invalid_request_error\",\"param\":\"" name "\",\"code\":"
    static const struct {
        const char *path, *body, *part;
        int code;
    } rows[] = {
        /* prompts: texts, tokens, and arrays of either; the model counts from the number of tokens */
        { "completions", "{\"model\":\"count\",\"prompt\":[\"x\",\"xyz\"],\"max_tokens\":2,\"temperature\":0}",
          "{\"index\":0,\"text\":\"AB\",\"logprobs\":null,\"finish_reason\":\"length\"},{\"index\":1,\"text\":\"CD\"",
          200 },
        /* those of vLLM and llama-server */
        { "completions", TEXT(",\"echo\":true"), "\"text\":\"xyzCDE\"", 200 },
        { "completions", TEXT(",\"stop_token_ids\":[69]"),
          "\"text\":\"CD\",\"logprobs\":null,\"finish_reason\":\"stop\"", 200 },
        { "completions", TEXT(",\"stop_token_ids\":[68],\"min_tokens\":3"), "\"finish_reason\":\"length\"", 200 },
        { "completions", TEXT(",\"guided_choice\":[\"no\",\"yes\"]"), "\"finish_reason\":\"stop\"", 200 },
        { "completions", TEXT(",\"guided_json\":{\"const\":7}"), "\"text\":\"7\"", 200 },
        { "completions", TEXT(",\"json_schema\":{\"enum\":[8]}"), "\"text\":\"8\"", 200 },
        { "completions", TEXT(",\"guided_json\":\"{\\\"const\\\":7}\""), "\"text\":\"7\"", 200 },
        { "completions", TEXT(",\"structured_outputs\":{\"regex\":\"ab\"}"), "\"text\":\"ab\"", 200 },
        { "completions", TEXT(",\"structured_outputs\":{\"bnf\":\"ab\"}"), "'bnf' is not supported", 400 },
        { "completions", TEXT(",\"structured_outputs\":{\"json\":{\"const\":7}},\"guided_regex\":\"a\""),
          "only one form", 400 },
        { "completions",
          "{\"model\":\"count\",\"prompt\":\"x\",\"max_tokens\":70,\"temperature\":0,\"ignore_eos\":true}",
          "\"finish_reason\":\"length\"", 200 },
        { "chat/completions", SAY(",\"cache_prompt\":true,\"verbosity\":\"low\""), "\"finish_reason\":\"length\"",
          200 },
        { "chat/completions",
          "{\"model\":\"count\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\","
          "\"image_url\":{\"url\":\"data:\"}}]}]}",
          "is of type image_url; the model takes texts only", 400 },
        { "completions", "{\"model\":\"count\",\"prompt\":[120,121],\"max_tokens\":2,\"temperature\":0}",
          "\"text\":\"BC\"", 200 },
        { "completions", "{\"model\":\"count\",\"prompt\":[[120],[120,121]],\"max_tokens\":1,\"temperature\":0}",
          "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5,\"prompt_tokens_details\":{"
          "\"cached_tokens\":0}}",
          200 },
        { "completions", "{\"model\":\"count\",\"prompt\":[\"x\",\"\"]}", "no tokens", 400 },
        { "completions", "{\"model\":\"count\",\"prompt\":[\"x\",7]}", REFUSED("prompt"), 400 },
        { "completions", "{\"model\":\"count\",\"prompt\":[]}", "no prompt", 400 },
        /* several texts */
        { "completions", TEXT(",\"n\":2"), "{\"index\":1,\"text\":\"CDE\"", 200 },
        { "completions", TEXT(",\"n\":2,\"best_of\":3"), "\"completion_tokens\":9,", 200 },
        { "completions", TEXT(",\"n\":3,\"best_of\":2"), REFUSED("best_of"), 400 },
        { "completions", TEXT(",\"best_of\":2,\"stream\":true"), REFUSED("best_of"), 400 },
        { "completions", "{\"model\":\"count\",\"prompt\":[\"x\",\"y\"],\"n\":100}", "more than 128 texts", 400 },
        { "chat/completions", SAY(",\"n\":2"), "{\"index\":1,\"message\":{\"role\":\"assistant\",\"content\":\"CD\"}",
          200 },
        { "chat/completions", SAY(",\"best_of\":2"), REFUSED("best_of"), 400 },
        /* the choice of tokens: the model is sure of its next one, whose logit is 1 */
        { "completions", TEXT(",\"logit_bias\":{\"113\":50}"), "\"text\":\"qqq\"", 200 },
        { "completions", TEXT(",\"logit_bias\":{\"67\":-100,\"113\":0.5}"), "\"text\":\"qDE\"", 200 },
        { "completions", TEXT(",\"logit_bias\":{\"113\":1.5},\"frequency_penalty\":0.4"), "\"text\":\"qqE\"", 200 },
        { "completions", TEXT(",\"logit_bias\":{\"113\":1.5},\"presence_penalty\":0.6"), "\"text\":\"qDE\"", 200 },
        { "completions", TEXT(",\"logit_bias\":{\"113\":1.5},\"presence_penalty\":0.4"), "\"text\":\"qqq\"", 200 },
        { "completions", TEXT(",\"logit_bias\":{\"q\":1}"), "'q' is not a token id", 400 },
        { "completions", TEXT(",\"logit_bias\":{\"67\":101}"), "too large", 400 },
        { "completions", TEXT(",\"frequency_penalty\":3"), REFUSED("frequency_penalty"), 400 },
        { "completions", TEXT(",\"presence_penalty\":-3"), REFUSED("presence_penalty"), 400 },
        { "completions", TEXT(",\"temperature\":2"), "duplicate", 400 },
        { "completions", "{\"model\":\"count\",\"prompt\":\"xyz\",\"max_tokens\":3,\"temperature\":2,\"top_k\":1}",
          "\"text\":\"CDE\"", 200 },
        { "completions", "{\"model\":\"count\",\"prompt\":\"xyz\",\"max_tokens\":3,\"temperature\":1,\"min_p\":0.9}",
          "\"text\":\"CDE\"", 200 },
        { "completions", TEXT(",\"min_p\":2"), REFUSED("min_p"), 400 },
        { "completions", "{\"model\":\"count\",\"prompt\":\"xyz\",\"max_tokens\":3,\"temperature\":2,\"top_p\":0.01}",
          "\"text\":\"CDE\"", 200 },
        { "completions", TEXT(",\"top_p\":1.5"), REFUSED("top_p"), 400 },
        { "completions", TEXT(",\"top_k\":-2"), REFUSED("top_k"), 400 },
        { "completions",
          "{\"model\":\"count\",\"prompt\":\"xyC\",\"max_tokens\":1,\"temperature\":0,\"logit_bias\":{\"113\":0.75},"
          "\"repetition_penalty\":2}",
          "\"text\":\"q\"", 200 },
        { "completions",
          "{\"model\":\"count\",\"prompt\":\"xyC\",\"max_tokens\":1,\"temperature\":0,\"logit_bias\":{\"113\":0.75},"
          "\"repetition_penalty\":1}",
          "\"text\":\"C\"", 200 },
        { "completions", TEXT(",\"repetition_penalty\":0"), REFUSED("repetition_penalty"), 400 },
        { "completions", TEXT(",\"stop\":[\"E\",\"D\"]"), "\"text\":\"C\",\"logprobs\":null,\"finish_reason\":\"stop\"",
          200 },
        { "chat/completions",
          "{\"model\":\"count\",\"temperature\":0,\"max_completion_tokens\":1,\"messages\":[{\"role\":\"user\","
          "\"content\":\"xy\"}]}",
          "\"content\":\"C\"", 200 },
        { "completions", TEXT(",\"seed\":0"), "\"text\":\"CDE\"", 200 },
        { "completions", TEXT(",\"seed\":1.5"), REFUSED("seed"), 400 },
        /* ln(e / (e + 127)) = -3.865, and 1 less for each other token */
        { "completions", TEXT(",\"logprobs\":1"),
          "\"logprobs\":{\"tokens\":[\"C\",\"D\",\"E\"],\"token_logprobs\":[-3.86537,-3.86537,-3.86537],"
          "\"top_logprobs\":[{\"C\":-3.86537},{\"D\":-3.86537},{\"E\":-3.86537}],\"text_offset\":[0,1,2]}",
          200 },
        { "completions", TEXT(",\"logprobs\":0"), "\"top_logprobs\":null,", 200 },
        { "completions", TEXT(",\"logprobs\":21"), REFUSED("logprobs"), 400 },
        { "chat/completions", SAY(",\"logprobs\":true,\"top_logprobs\":1"),
          "\"logprobs\":{\"content\":[{\"token\":\"C\",\"logprob\":-3.86537,\"bytes\":[67],\"top_logprobs\":[{"
          "\"token\":"
          "\"C\",\"logprob\":-3.86537,\"bytes\":[67]}]},{\"token\":\"D\",",
          200 },
        { "chat/completions", SAY(",\"top_logprobs\":1"), REFUSED("top_logprobs"), 400 },
        /* parameters with one supported value, labels, and all others */
        { "chat/completions",
          SAY(",\"response_format\":{\"type\":\"text\"},\"tools\":[],\"tool_choice\":\"none\",\"modalities\":[\"text\"]"
              ","
              "\"user\":\"u\",\"metadata\":{\"a\":\"b\"},\"store\":false,\"service_tier\":\"auto\",\"stop\":null,"
              "\"audio\":null"),
          "\"content\":\"CD\"", 200 },
        { "chat/completions", SAY(",\"response_format\":{\"type\":\"xml\"}"), REFUSED("response_format"), 400 },
        /* the form of the text: the model's tokens are single characters, and it wants the next letter */
        { "completions", TEXT(",\"guided_regex\":\"[q-s]+\""),
          "\"text\":\"qqq\",\"logprobs\":null,\"finish_reason\":\"length\"", 200 },
        { "completions", TEXT(",\"guided_regex\":\"q.s\""), "\"text\":\"qDs\"", 200 },
        { "completions", TEXT(",\"guided_regex\":\"qD\",\"n\":2"),
          "{\"index\":1,\"text\":\"qD\",\"logprobs\":null,\"finish_reason\":\"stop\"", 200 },
        { "completions", TEXT(",\"grammar\":\"root ::= \\\"C\\\" [a-b]\""),
          "\"text\":\"Ca\",\"logprobs\":null,\"finish_reason\":\"stop\"", 200 },
        { "completions", TEXT(",\"grammar\":\"root ::= x\""), "grammar: the grammar has no rule 'x'", 400 },
        { "completions", TEXT(",\"guided_regex\":\"(\""), REFUSED("guided_regex"), 400 },
        { "completions", TEXT(",\"guided_regex\":\"a\",\"grammar\":\"root ::= \\\"a\\\"\""), "only one form", 400 },
        { "chat/completions",
          "{\"model\":\"count\",\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":\"xy\"}],\"response_"
          "format\":{"
          "\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"strict\":true,\"schema\":{\"type\":\"object\","
          "\"properties\":{\"a\":{\"enum\":[\"F\",\"G\"]}},\"required\":[\"a\"],\"additionalProperties\":false}}}}",
          "\"content\":\"{\\\"a\\\":\\\"F\\\"}\"},\"logprobs\":null,\"finish_reason\":\"stop\"", 200 },
        { "chat/completions", SAY(",\"response_format\":{\"type\":\"json_object\"}"), "\"content\":\"{\\\"\"", 200 },
        { "chat/completions",
          SAY(",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"multipleOf\":12345}}}"),
          "'multipleOf': ", 400 },
        { "chat/completions", SAY(",\"modalities\":[\"audio\"]"), REFUSED("modalities"), 400 },
        /* a schema next to the type, as clients of llama-server write it, and unknown members */
        { "chat/completions", SAY(",\"response_format\":{\"type\":\"json_object\",\"schema\":{\"const\":7}}"),
          "\"content\":\"7\"", 200 },
        { "chat/completions", SAY(",\"response_format\":{\"type\":\"json_schema\",\"schema\":{\"const\":7}}"),
          "\"content\":\"7\"", 200 },
        { "chat/completions", SAY(",\"response_format\":{\"type\":\"text\",\"schema\":{\"const\":7}}"),
          "response_format: the schema would have no effect", 400 },
        { "chat/completions",
          SAY(",\"response_format\":{\"type\":\"json_object\",\"json_schema\":{\"schema\":{\"const\":7}}}"),
          "response_format: the schema would have no effect", 400 },
        { "chat/completions",
          SAY(",\"response_format\":{\"type\":\"json_schema\",\"schema\":{\"const\":7},\"json_schema\":{\"schema\":{}}"
              "}"),
          "response_format: the schema would have no effect", 400 },
        { "chat/completions", SAY(",\"response_format\":{\"type\":\"text\",\"pattern\":\"a\"}"),
          "response_format: 'pattern' is not supported", 400 },
        { "chat/completions",
          SAY(",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"const\":7},\"order\":1}"
              "}"),
          "response_format: 'order' is not supported", 400 },
        { "completions", TEXT(",\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":true}"),
          "stream_options: continuous_usage_stats: only false is supported", 400 },
        { "completions", TEXT(",\"stream\":true,\"stream_options\":{\"usage\":true}"),
          "stream_options: 'usage' is not supported", 400 },
        { "responses", "{\"model\":\"count\",\"input\":\"xy\",\"text\":{\"form\":1}}", "text: 'form' is not supported",
          400 },
        /* what clients of vLLM and llama-server send with its default value */
        { "completions",
          TEXT(",\"skip_special_tokens\":true,\"spaces_between_special_tokens\":true,\"request_id\":\"r\","
               "\"include_stop_str_in_output\":false,\"use_beam_search\":false,\"repeat_penalty\":1,"
               "\"return_tokens_as_token_ids\":false,\"return_token_ids\":false"),
          "\"text\":\"CDE\"", 200 },
        { "chat/completions", SAY(",\"add_generation_prompt\":true,\"continue_final_message\":false,\"echo\":false"),
          "\"content\":\"CD\"", 200 },
        { "completions", TEXT(",\"skip_special_tokens\":false"), REFUSED("skip_special_tokens"), 400 },
        { "completions", TEXT(",\"use_beam_search\":true"), REFUSED("use_beam_search"), 400 },
        { "completions",
          TEXT(",\"length_penalty\":1.0,\"priority\":0,\"bad_words\":[],\"mirostat\":0,\"typical_p\":1,\"id_slot\":-1,"
               "\"dynatemp_range\":0.0,\"dry_multiplier\":0,\"xtc_probability\":0,\"n_probs\":0,\"min_keep\":0,"
               "\"timings_per_token\":false,\"return_progress\":false"),
          "\"text\":\"CDE\"", 200 },
        { "completions", TEXT(",\"mirostat\":2"), "mirostat: only 0 is supported", 400 },
        { "completions", TEXT(",\"typical_p\":0.5"), "typical_p: only 1 is supported", 400 },
        { "completions", TEXT(",\"bad_words\":[\"a\"]"), REFUSED("bad_words"), 400 },
        { "completions", "{\"model\":\"count\",\"prompt\":\"u\",\"temperature\":0,\"max_tokens\":-1}",
          "\"finish_reason\":\"stop\"", 200 },
        { "completions", "{\"model\":\"count\",\"prompt\":\"u\",\"max_tokens\":-2}", REFUSED("max_tokens"), 400 },
        { "chat/completions", SAY(",\"continue_final_message\":true"), REFUSED("continue_final_message"), 400 },
        { "chat/completions", SAY(",\"store\":true"), REFUSED("store"), 400 },
        { "chat/completions", SAY(",\"service_tier\":\"flex\""), REFUSED("service_tier"), 400 },
        { "chat/completions", SAY(",\"tool_choice\":\"required\""), REFUSED("tool_choice"), 400 },
        { "chat/completions", SAY(",\"functions\":[{}]"), REFUSED("functions"), 400 },
        { "chat/completions", SAY(",\"reasoning_effort\":\"low\""),
          REFUSED("reasoning_effort") "\"unsupported_parameter\"", 400 },
        { "completions", TEXT(",\"suffix\":\"z\""), "suffix: the model's tokenizer has no tokens for a text between",
          400 },
        { "completions", TEXT(",\"suffix\":\"\""), "\"text\":", 200 },
        { "completions", TEXT(",\"suffix\":7"), "suffix: not a text", 400 },
        { "completions", TEXT(",\"stream\":1"), REFUSED("stream"), 400 },
        { "completions", TEXT(",\"stop\":7"), REFUSED("stop"), 400 },
        { "completions", "[]", "not an object", 400 },
        { "completions", "{\"model\":\"none\",\"prompt\":\"x\"}", "\"param\":\"model\",\"code\":\"model_not_found\"",
          404 },
        /* embeddings: the vector of "!" is 1 at dimension 33; base64 is of little-endian floats */
        { "embeddings", "{\"model\":\"vectors\",\"input\":[[33,33],[33]],\"user\":\"u\"}", "\"prompt_tokens\":3,",
          200 },
        { "embeddings", "{\"model\":\"vectors\",\"input\":[33],\"dimensions\":34}", "0,0,0,1]}", 200 },
        { "embeddings", "{\"model\":\"vectors\",\"input\":[33],\"dimensions\":34,\"encoding_format\":\"base64\"}",
          "AAAAAACAPw==\"", 200 },
        { "embeddings", "{\"model\":\"vectors\",\"input\":\"a\",\"dimensions\":129}", "the model's embeddings have 128",
          400 },
        { "embeddings", "{\"model\":\"vectors\",\"input\":\"a\",\"dimensions\":0}", REFUSED("dimensions"), 400 },
        { "embeddings", "{\"model\":\"vectors\",\"input\":[999]}", "no token 999", 400 },
        { "embeddings", "{\"model\":\"vectors\",\"input\":\"a\",\"truncate\":true}", REFUSED("truncate"), 400 },
    };
    static char events[65536];
    char path[64];
    struct answer answer;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)snprintf(path, sizeof path, "/v1/%s", rows[i].path);
        client_expect(&server, "POST", path, "", rows[i].body, rows[i].code, rows[i].part);
    }
    stream(TEXT(",\"n\":2,\"stream\":true,\"stream_options\":{\"include_usage\":true}"), NULL, events, sizeof events);
    assert_non_null(
        strstr(events, "{\"index\":1,\"text\":\"C\",\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}"));
    assert_non_null(strstr(events, "\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":6,\"total_"
                                   "tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\ndata: [DONE]"));
    client_once(&server, "GET", "/v1/models/count", "", NULL, &answer);
    assert_int_equal(answer.code, 200);
    assert_non_null(strstr(answer.body, "{\"id\":\"count\",\"object\":\"model\""));
    client_once(&server, "GET", "/v1/models/none", "", NULL, &answer);
    assert_int_equal(answer.code, 404);
    assert_non_null(strstr(answer.body, "\"code\":\"model_not_found\""));
}

/* Each parameter of OpenAI's API that is not supported is refused by its name, whatever its value; the same with null,
 * which is as if it were missing, is answered. */
static void test_unsupported(void **state)
{
    static const struct {
        const char *path, *body; /* without its last brace */
    } requests[] = {
        { "completions", "{\"model\":\"count\",\"prompt\":\"xyz\",\"max_tokens\":1" },
        { "chat/completions",
          "{\"model\":\"count\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"xy\"}]" },
        { "responses", "{\"model\":\"count\",\"input\":\"xy\",\"max_output_tokens\":1" },
        { "embeddings", "{\"model\":\"vectors\",\"input\":\"a\"" },
    };
    enum { COMPLETIONS = 1, CHAT = 2, RESPONSES = 4, EMBEDDINGS = 8, ALL = 15 };
    static const struct {
        unsigned requests;
        const char *name, *value;
    } rows[] = {
        { ALL, "audio", "{\"voice\":\"a\",\"format\":\"wav\"}" },
        { ALL, "prediction", "{\"type\":\"content\",\"content\":\"x\"}" },
        { ALL, "web_search_options", "{}" },
        { RESPONSES | EMBEDDINGS, "verbosity", "\"low\"" },
        { ALL, "reasoning_effort", "\"low\"" },
        { ALL, "function_call", "\"auto\"" },
        { ALL, "prompt_cache_retention", "\"24h\"" },
        { ALL, "previous_response_id", "\"resp_1\"" },
        { ALL, "reasoning", "{\"effort\":\"low\"}" },
        { ALL, "conversation", "\"conv_1\"" },
        { ALL & ~COMPLETIONS, "prompt", "{\"id\":\"p\"}" },
        { ALL, "max_tool_calls", "1" },
        { ALL, "truncate_prompt_tokens", "4" },
        { ALL, "use_beam_search", "true" },
        { RESPONSES | EMBEDDINGS, "stop_token_ids", "[1]" },
        { ALL, "no_such_parameter", "0" },
        { COMPLETIONS | EMBEDDINGS, "tools", "[]" },
        { COMPLETIONS | EMBEDDINGS, "top_logprobs", "1" },
        { CHAT | RESPONSES | EMBEDDINGS, "best_of", "2" },
        { RESPONSES | EMBEDDINGS, "n", "2" },
        { RESPONSES | EMBEDDINGS, "seed", "0" },
        { RESPONSES | EMBEDDINGS, "logit_bias", "{}" },
        { RESPONSES | EMBEDDINGS, "stop", "\"x\"" },
        { RESPONSES, "background", "true" },
        { RESPONSES, "include", "[\"file_search_call.results\"]" },
        { COMPLETIONS | CHAT | RESPONSES, "dimensions", "3" },
        { COMPLETIONS | CHAT | RESPONSES, "encoding_format", "\"float\"" },
        { EMBEDDINGS, "temperature", "0" },
        { EMBEDDINGS, "stream", "false" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < sizeof requests / sizeof *requests; k++) {
            char path[64], body[512], part[128];

            if ((rows[i].requests >> k & 1) == 0)
                continue;
            (void)snprintf(path, sizeof path, "/v1/%s", requests[k].path);
            (void)snprintf(body, sizeof body, "%s,\"%s\":%s}", requests[k].body, rows[i].name, rows[i].value);
            (void)snprintf(part, sizeof part,
                           "\"type\":\"invalid_request_error\",\"param\":\"%s\",\"code\":", rows[i].name);
            client_expect(&server, "POST", path, "", body, 400, part);
            (void)snprintf(body, sizeof body, "%s,\"%s\":null}", requests[k].body, rows[i].name);
            client_expect(&server, "POST", path, "", body, 200, "");
        }
}

/* /v1/responses: whole and as events. */
static void test_responses(void **state)
{
#define RESPOND(more) "{\"model\":\"count\",\"max_output_tokens\":2,\"temperature\":0,\"input\":\"xy\"" more "}"
    static const struct {
        const char *body, *part;
        int code;
    } rows[] = {
        { RESPOND(""), "\"object\":\"response\"", 200 },
        { RESPOND(""),
          "\"status\":\"incomplete\",\"error\":null,\"incomplete_details\":{\"reason\":\"max_output_tokens\"}", 200 },
        { RESPOND(""), "\"content\":[{\"type\":\"output_text\",\"text\":\"CD\",\"annotations\":[],\"logprobs\":[]}]",
          200 },
        { RESPOND(""),
          "\"usage\":{\"input_tokens\":3,\"input_tokens_details\":{\"cached_tokens\":0},\"output_tokens\":2,", 200 },
        { RESPOND(",\"instructions\":\"a\""), "\"text\":\"EF\"", 200 }, /* "sa" before "uxy" */
        { RESPOND(",\"instructions\":\"a\""), "\"instructions\":\"a\"", 200 },
        { RESPOND(",\"metadata\":{\"k\":\"v\"},\"tools\":[],\"truncation\":\"disabled\""),
          "\"metadata\":{\"k\":\"v\"}}", 200 },
        { RESPOND(",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{\"enum\":[7]}}}"),
          "\"status\":\"completed\"", 200 },
        { RESPOND(",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{\"enum\":[7]}}}"),
          "\"text\":\"7\"", 200 },
        { RESPOND(",\"text\":{\"format\":{\"name\":\"n\"}}"), "format has no type", 400 },
        { RESPOND(",\"previous_response_id\":\"resp_1\""), REFUSED("previous_response_id"), 400 },
        { RESPOND(",\"store\":true"), REFUSED("store"), 400 },
        { RESPOND(",\"truncation\":\"auto\""), REFUSED("truncation"), 400 },
        { "{\"model\":\"count\",\"max_output_tokens\":2,\"temperature\":0,\"input\":[{\"role\":\"user\",\"content\":[{"
          "\"type\":\"input_text\",\"text\":\"x\"}]},{\"type\":\"message\",\"role\":\"user\",\"content\":\"y\"}]}",
          "\"text\":\"DE\"", 200 },
        { "{\"model\":\"count\",\"input\":[{\"type\":\"reasoning\"}]}", "'message' is", 400 },
        { "{\"model\":\"count\"}", "the request has no input", 400 },
    };
    static const char *const events[] = {
        ("event: response.created\ndata: "
         "{\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_"),
        "\"status\":\"in_progress\"",
        "event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"sequence_number\":1,",
        "event: response.output_item.added\n",
        "event: response.content_part.added\n",
        "\"sequence_number\":4,\"item_id\":\"msg_",
        "\"logprobs\":[],\"delta\":\"C\"}\n\n",
        "\"logprobs\":[],\"delta\":\"D\"}\n\n",
        "event: response.output_text.done\n",
        "\"text\":\"CD\"}\n\n",
        "event: response.content_part.done\n",
        "event: response.output_item.done\n",
        "event: response.incomplete\n",
        "\"output\":[{\"type\":\"message\",\"id\":\"msg_",
    };
    static char got[65536];
    const char *at = got;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        client_expect(&server, "POST", "/v1/responses", "", rows[i].body, rows[i].code, rows[i].part);
    stream_at("/v1/responses", RESPOND(",\"stream\":true"), NULL, got, sizeof got);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        at = strstr(at, events[i]);
        if (at == NULL)
            fail_msg("no '%s' in its place: %s", events[i], got);
    }
}

/* The same seed, 0 too, gives the same text; other seeds and none give others. */
static void test_seeds(void **state)
{
    static const char *const seeds[] = { ",\"seed\":0", ",\"seed\":0", ",\"seed\":1", "" };
    char body[160], texts[4][512];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct answer answer;

        (void)snprintf(body, sizeof body,
                       "{\"model\":\"count\",\"prompt\":\"x\",\"temperature\":2,\"max_tokens\":32%s}", seeds[i]);
        client_once(&server, "POST", "/v1/completions", "", body, &answer);
        assert_int_equal(answer.code, 200);
        texts_of(answer.body, texts[i], sizeof texts[i]);
    }
    assert_string_equal(texts[0], texts[1]);
    assert_string_not_equal(texts[0], texts[2]);
    assert_string_not_equal(texts[0], texts[3]);
}

/* Texts of many lengths in one request: those that share a run have the vectors that they have alone. */
static void test_many_embeddings(void **state)
{
    static char body[16384], part[512];
    size_t used = (size_t)snprintf(body, sizeof body, "{\"model\":\"vectors\",\"dimensions\":35,\"input\":[");

    (void)state;
    for (size_t i = 0; i < 100; i++) { /* text i: i % 13 times token 33, then token 34 */
        used += (size_t)snprintf(body + used, sizeof body - used, "%s[", i > 0 ? "," : "");
        for (size_t k = 0; k < i % 13; k++)
            used += (size_t)snprintf(body + used, sizeof body - used, "33,");
        used += (size_t)snprintf(body + used, sizeof body - used, "34]");
    }
    (void)snprintf(body + used, sizeof body - used, "]}");
    for (size_t i = 0; i < 100; i += 11) {
        double ones = (double)(i % 13), norm = sqrt(ones * ones + 1);

        used = (size_t)snprintf(part, sizeof part, "\"index\":%zu,\"embedding\":[", i);
        for (int k = 0; k < 33; k++)
            used += (size_t)snprintf(part + used, sizeof part - used, "0,");
        (void)snprintf(part + used, sizeof part - used, "%.9g,%.9g]", (double)(float)(ones / norm),
                       (double)(float)(1 / norm));
        embed(body, 200, part);
    }
}

/* "Unwanted!" is [CLS] un ##want ##ed ! [SEP]. */
/* Asks for the vectors of one text a request, of changing lengths, and of two. Returns NULL, or the text of a wrong
 * answer. */
static void *ask_vectors(void *user)
{
    const int first = *(const int *)user;
    static _Thread_local struct answer answer;

    for (int i = 0; i < 40; i++) {
        const int ones = (first * 5 + i) % 13 + 1, more = ones + i % 9;
        char body[512], part[256];
        size_t used = (size_t)snprintf(body, sizeof body, "{\"model\":\"vectors\",\"dimensions\":35,\"input\":[[");

        for (int k = 0; k < ones; k++)
            used += (size_t)snprintf(body + used, sizeof body - used, "33,");
        used += (size_t)snprintf(body + used, sizeof body - used, i % 2 == 0 ? "34]]}" : "34],[");
        for (int k = 0; k < more && i % 2 == 1; k++)
            used += (size_t)snprintf(body + used, sizeof body - used, k + 1 < more ? "34," : "34]]}");
        (void)snprintf(part, sizeof part, "0,0,0,%.9g,%.9g]", (double)(float)(ones / sqrt(ones * ones + 1.0)),
                       (double)(float)(1 / sqrt(ones * ones + 1.0)));
        client_once(&server, "POST", "/v1/embeddings", "", body, &answer);
        if (answer.code != 200 || strstr(answer.body, part) == NULL ||
            (i % 2 == 1 && strstr(answer.body, "0,0,0,1]}]") == NULL))
            return answer.body;
    }
    return NULL;
}

/* Texts of several requests share runs; each has the vector that it has alone. */
static void test_concurrent_embeddings(void **state)
{
    enum { CLIENTS = 6 };
    pthread_t threads[CLIENTS];
    int first[CLIENTS];
    void *wrong;

    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        first[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, ask_vectors, &first[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

static void test_word_pieces(void **state)
{
    (void)state;
    embed("{\"model\":\"bert\",\"input\":\"Unwanted!\"}", 200,
          "[0,0,0.408248305,0.408248305,0.408248305,0.408248305,0.408248305,0.408248305,0,");
    embed("{\"model\":\"bert\",\"input\":\"Unwanted!\"}", 200, "\"prompt_tokens\":6,");
    embed("{\"model\":\"bert\",\"input\":\"what\"}", 200, "[0,0.577350259,0.577350259,0.577350259,0,");
}

/* Without a step that normalizes, the vectors have the lengths that pooling gives them. */
static void test_pooling(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pooled / sizeof *pooled; i++) {
        char body[128];

        (void)snprintf(body, sizeof body, "{\"model\":\"%s\",\"input\":\"unwanted\"}", pooled[i].name);
        embed(body, 200, pooled[i].vector);
    }
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

    *state = &server;
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
    expect_asleep("vectors"); /* model vectors was never loaded */
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
        cmocka_unit_test(test_whole_texts),
        cmocka_unit_test(test_rejected_requests),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_infill),
        cmocka_unit_test(test_similarity),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_router_figures),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_abandoned_requests),
        cmocka_unit_test(test_concurrent_texts),
        cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_word_pieces),
        cmocka_unit_test(test_chats),
        cmocka_unit_test(test_sentence_pieces),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_responses),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_many_embeddings),
        cmocka_unit_test(test_concurrent_embeddings),
    };

    const struct CMUnitTest small[] = { cmocka_unit_test(test_texts_wake_models) };
    int failed;

    (void)signal(SIGPIPE, SIG_IGN);
    failed = cmocka_run_group_tests(tests, start, serving_tear_down);
    return failed + cmocka_run_group_tests(small, start_small, serving_tear_down);
}
