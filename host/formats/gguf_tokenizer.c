/* gguf_tokenizer.c - the tokenizer of a GGUF file as a tokenizer.json, and what else belongs to it in the files
 * tokenizer_config.json and config.json of Hugging Face. */
#include "formats/gguf.h"
#include "formats/onnx_write.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>

enum {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER,
    TOKEN_UNUSED,
    TOKEN_BYTE
}; /* tokenizer.ggml.token_type */

/* Values of tokenizer.ggml.pre whose texts begin with the first token unless the file says otherwise. */
static const char beginning[] = "llama3\0llama-v3\0llama-bpe\0falcon3\0falcon-h1\0pixtral\0midm-2.0\0lfm2\0"
                                "jina-v5-nano\0tekken\0chameleon\0";
/* Those whose texts are separated by a token. */
static const char separating[] = "jina-v1-en\0jina-v2-code\0roberta-bpe\0";
/* Those that drop white space before a token <mask>. */
static const char masking[] = "jina-v2-de\0jina-v2-es\0jina-v2-code\0";

/* Texts of tokens that end a turn whatever their type is, as in llama.cpp; of the first ones, each is named below. */
static const char end_names[] =
    "<|end|>\0</s>\0<|return|>\0<|call|>\0<|calls|>\0<|flush|>\0<|tool_response>\0"
    "<|fim_pad|>\0<fim-pad>\0<fim_pad>\0<PAD>\0[PAD]\0<|fim_repo|>\0<|repo_name|>\0<fim-repo>\0<REPO>\0<reponame>\0"
    "<|file_sep|>\0<|eot_id|>\0<|im_end|>\0<end_of_turn>\0<|endoftext|>\0<|eom_id|>\0<EOT>\0_<EOT>\0[EOT]\0[EOS]\0"
    "<|end_of_text|>\0<end_of_utterance>\0<eos>\0<turn|>\0<\uff5cend\u2581of\u2581sentence\uff5c>\0[e~[\0";
enum end_name {
    END_OF_PART,
    END_OF_TEXT,
    END_RETURN,
    END_CALL,
    END_CALLS,
    END_FLUSH,
    END_TOOL,
    PAD,
    REPOSITORY = 12,
    FILES = 17,
    TURN
};

struct tokenizer {
    struct gguf_value *tokens, *types, *scores, *merges;
    bool by_scores; /* SentencePiece's BPE, which merges by scores */
    bool of_words;  /* WordPiece */
    bool of_pieces; /* SentencePiece's unigrams */
    bool separates; /* two texts, unless the file says otherwise */
    bool strips;    /* white space behind special tokens */
    bool masks;     /* drops white space before a token <mask> */
    struct gguf_text splitter;
    uint64_t names; /* bits of enum end_name: tokens that the vocabulary has */
    int64_t ends[64];
    size_t end_count;
    struct strbuf json;
};

static void add_quoted(struct strbuf *json, struct gguf_text text)
{
    strbuf_json(json, text.data, text.bytes);
}

/* names: each with its NUL, and another one at the end. */
static bool is_among(struct gguf_text text, const char *names)
{
    for (const char *name = names; name[0] != '\0'; name += strlen(name) + 1)
        if (gguf_text_is(text, name))
            return true;
    return false;
}

/* Whether the text has the word in it, in capitals or not. */
static bool mentions(struct gguf_text text, const char *word)
{
    for (size_t i = 0; i + strlen(word) <= text.bytes; i++)
        if (strncasecmp(text.data + i, word, strlen(word)) == 0)
            return true;
    return false;
}

/* Which of end_names the text is; -1: none. */
static int end_name(struct gguf_text text)
{
    int which = 0;

    if (text.bytes < 4 || strchr("<[_", text.data[0]) == NULL)
        return -1;
    for (const char *name = end_names; name[0] != '\0'; name += strlen(name) + 1, which++)
        if (gguf_text_is(text, name))
            return which;
    return -1;
}

static bool has_name(const struct tokenizer *t, enum end_name name)
{
    return (t->names >> name & 1) != 0;
}

/* Whether a token of end_names ends a part only in this vocabulary, as in llama.cpp. */
static bool is_other(const struct tokenizer *t, int name)
{
    const bool calls = has_name(t, END_CALL) || has_name(t, END_CALLS);

    return (name == END_OF_PART && calls && (has_name(t, END_RETURN) || has_name(t, END_FLUSH))) ||
           (name == END_OF_TEXT && has_name(t, END_TOOL));
}

static int64_t type_of_token(const struct tokenizer *t, uint64_t id, struct gguf_text text)
{
    const int name = end_name(text);

    if (name >= 0)
        return !is_other(t, name) ? TOKEN_CONTROL : name == END_OF_PART ? TOKEN_USER : TOKEN_NORMAL;
    return t->types != NULL ? (int64_t)gguf_item(t->types, id) : TOKEN_NORMAL;
}

/* A token of a key; -1: none. otherwise: if the file lacks the key. */
static int64_t token_id(const struct tokenizer *t, struct gguf *gguf, enum gguf_key key, int64_t otherwise)
{
    const int64_t id = gguf_int_or(gguf, key, -1);

    if (id >= 0 && id != UINT32_MAX && (uint64_t)id >= t->tokens->count)
        gguf_fail_key(gguf, key, "has an id that is outside of the vocabulary for the key");
    if (id >= 0 && id != UINT32_MAX)
        return id;
    return otherwise < (int64_t)t->tokens->count ? otherwise : -1;
}

/* Those of llama.cpp if the file lacks the keys. */
static int64_t first_token(const struct tokenizer *t, struct gguf *gguf)
{
    return token_id(t, gguf, GGUF_BEGIN, t->of_words ? 101 : t->of_pieces ? -1 : t->by_scores ? 1 : 11);
}

static int64_t last_token(const struct tokenizer *t, struct gguf *gguf)
{
    return t->of_words ? token_id(t, gguf, GGUF_SEPARATOR, 102)
                       : token_id(t, gguf, GGUF_END,
                                  t->of_pieces   ? 1
                                  : t->by_scores ? 2
                                                 : 11);
}

/* Tokens that are found in a text before it is split. */
static void add_special_tokens(struct tokenizer *t)
{
    const uint8_t *at = t->tokens->data;
    bool first = true;

    strbuf_text(&t->json, "\"added_tokens\":[");
    for (uint64_t id = 0; id < t->tokens->count; id++) {
        const struct gguf_text token = gguf_next_text(&at);
        const int64_t type = type_of_token(t, id, token);

        if ((type != TOKEN_CONTROL && type != TOKEN_USER && type != TOKEN_UNKNOWN) || token.bytes == 0)
            continue;
        strbuf_format(&t->json, "%s{\"id\":%" PRIu64 ",\"content\":", first ? "" : ",", id);
        add_quoted(&t->json, token);
        strbuf_format(&t->json, ",\"special\":%s,\"normalized\":false%s%s}", type == TOKEN_USER ? "false" : "true",
                      t->strips && !is_among(token, "<unk>\0<s>\0<|endoftext|>\0") ? ",\"rstrip\":true" : "",
                      t->masks && gguf_text_is(token, "<mask>") ? ",\"lstrip\":true" : "");
        first = false;
    }
    strbuf_text(&t->json, "]");
}

/* The token that begins a text, if the file wants one, the one that ends it, and those between two texts. */
static void add_post_processor(struct tokenizer *t, struct gguf *gguf, bool begins)
{
    const int64_t begin = first_token(t, gguf), end = last_token(t, gguf);
    const bool states_end = gguf_int_or(gguf, GGUF_ADD_END, t->of_pieces) != 0, ends = t->of_words || states_end;
    const bool separates = gguf_int_or(gguf, GGUF_ADD_SEPARATOR, t->separates) != 0;
    const int64_t separator = token_id(t, gguf, GGUF_SEPARATOR, end);

    begins = gguf_int_or(gguf, GGUF_ADD_BEGIN, begins) != 0;
    if (begins && begin < 0)
        gguf_fail_key(gguf, GGUF_BEGIN, "begins texts with a token and lacks the key");
    if (ends && end < 0)
        gguf_fail_key(gguf, GGUF_END, "ends texts with a token and lacks the key");
    strbuf_text(&t->json, ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
    if (begins)
        strbuf_text(&t->json, "{\"SpecialToken\":{\"id\":\"begin\"}},");
    strbuf_text(&t->json, "{\"Sequence\":{\"id\":\"A\"}}");
    if (ends)
        strbuf_text(&t->json, ",{\"SpecialToken\":{\"id\":\"end\"}}");
    strbuf_text(&t->json, "],\"pair\":[{\"Sequence\":{\"id\":\"A\"}}");
    if (states_end)
        strbuf_text(&t->json, ",{\"SpecialToken\":{\"id\":\"end\"}}");
    if (separates && separator >= 0)
        strbuf_text(&t->json, ",{\"SpecialToken\":{\"id\":\"separator\"}}");
    strbuf_format(&t->json,
                  ",{\"Sequence\":{\"id\":\"B\"}}],\"special_tokens\":{\"begin\":{\"ids\":[%" PRId64
                  "]},\"end\":{\"ids\":[%" PRId64 "]},\"separator\":{\"ids\":[%" PRId64 "]}}}",
                  begin, end, separator);
}

/* The token of WordPiece as Hugging Face writes it: a part within a word begins with ##. llama.cpp marks the beginnings
 * of words instead. */
static void add_word(struct tokenizer *t, struct gguf_text token)
{
    static const char mark[] = "\u2581";
    const size_t bytes = sizeof mark - 1;
    const bool begins = token.bytes >= bytes && memcmp(token.data, mark, bytes) == 0;
    const bool is_special = token.bytes > 1 && token.data[0] == '[' && token.data[token.bytes - 1] == ']';
    struct strbuf text = { 0 };

    strbuf_text(&text, begins || is_special ? "" : "##");
    strbuf_add(&text, token.data + (begins ? bytes : 0), token.bytes - (begins ? bytes : 0));
    strbuf_json(&t->json, text.data != NULL ? text.data : "", text.size);
    t->json.failed |= text.failed;
    strbuf_deinit(&text);
}

/* "text": id for each token; scores instead: a list of [text, score]. */
static void add_vocabulary(struct tokenizer *t, bool scored)
{
    const uint8_t *at = t->tokens->data;

    strbuf_text(&t->json, scored ? "\"vocab\":[" : "\"vocab\":{");
    for (uint64_t id = 0; id < t->tokens->count; id++) {
        const struct gguf_text token = gguf_next_text(&at);

        strbuf_text(&t->json, id > 0 ? "," : "");
        strbuf_text(&t->json, scored ? "[" : "");
        if (t->of_words)
            add_word(t, token);
        else
            add_quoted(&t->json, token);
        if (scored)
            strbuf_format(&t->json, ",%.9g]", gguf_item(t->scores, id));
        else
            strbuf_format(&t->json, ":%" PRIu64, id);
    }
    strbuf_text(&t->json, scored ? "]" : "}");
}

/* BPE by merges of bytes, or of characters in words that white space divides. */
static void add_merged(struct tokenizer *t, struct gguf *gguf)
{
    const bool of_words = gguf_text_is(t->splitter, "whitespace");
    const uint8_t *at;

    if (t->merges == NULL) {
        gguf_fail_key(gguf, GGUF_MERGES, "lacks the key");
        return;
    }
    add_post_processor(t, gguf, is_among(t->splitter, beginning));
    if (of_words && gguf_int_or(gguf, GGUF_LOWER_CASE, 0) != 0)
        strbuf_text(&t->json, ",\"normalizer\":{\"type\":\"Lowercase\"}");
    else if (gguf_int(gguf, GGUF_COMPOSE) != 0)
        strbuf_text(&t->json, ",\"normalizer\":{\"type\":\"NFC\"}");
    strbuf_format(&t->json, ",\"pre_tokenizer\":{\"type\":\"%s\",\"name\":", of_words ? "WhitespaceSplit" : "GGUF");
    add_quoted(&t->json, t->splitter);
    strbuf_format(&t->json,
                  "},\"decoder\":{\"type\":\"%s\"},\"model\":{\"type\":\"BPE\",\"byte_fallback\":%s,\"merges\":[",
                  of_words ? "Fuse" : "ByteLevel", of_words ? "true" : "false");
    at = t->merges->data;
    for (uint64_t i = 0; i < t->merges->count; i++) {
        strbuf_text(&t->json, i > 0 ? "," : "");
        add_quoted(&t->json, gguf_next_text(&at));
    }
    strbuf_text(&t->json, "],");
    add_vocabulary(t, false);
    strbuf_text(&t->json, "}}");
}

/* SentencePiece's BPE. */
static void add_sentencepiece(struct tokenizer *t, struct gguf *gguf)
{
    const int64_t unknown = token_id(t, gguf, GGUF_UNKNOWN, 0);
    const bool begins_spaced = gguf_int(gguf, GGUF_ADD_SPACE) != 0;
    const uint8_t *at = t->tokens->data;
    struct gguf_text unknown_text = { "", 0 };

    if (t->scores == NULL || t->scores->count < t->tokens->count) {
        gguf_fail_key(gguf, GGUF_SCORES, "has not a number for each token by the key");
        return;
    }
    for (uint64_t id = 0; id < t->tokens->count && unknown >= 0 && id <= (uint64_t)unknown; id++)
        unknown_text = gguf_next_text(&at);
    add_post_processor(t, gguf, true);
    strbuf_text(&t->json, ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    if (begins_spaced)
        strbuf_text(&t->json, "{\"type\":\"Prepend\",\"prepend\":\"\u2581\"},");
    strbuf_text(&t->json, "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}]},"
                          "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
                          "{\"String\":\"\u2581\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}");
    if (begins_spaced)
        strbuf_text(&t->json, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
    strbuf_text(&t->json, "]},\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,\"unk_token\":");
    add_quoted(&t->json, unknown_text);
    strbuf_text(&t->json, ",");
    add_vocabulary(t, true);
    strbuf_text(&t->json, "}}");
}

/* The text of a token; data NULL: there is none. */
static struct gguf_text text_of(const struct tokenizer *t, int64_t id)
{
    const uint8_t *at = t->tokens->data;
    struct gguf_text text = { NULL, 0 };

    for (int64_t i = 0; i <= id; i++)
        text = gguf_next_text(&at);
    return text;
}

static void add_wordpiece(struct tokenizer *t, struct gguf *gguf)
{
    const int64_t unknown = token_id(t, gguf, GGUF_UNKNOWN, 100);
    const struct gguf_text text = text_of(t, unknown);
    const bool lower = gguf_int(gguf, GGUF_LOWER_CASE) != 0;

    if (text.data == NULL) {
        gguf_fail_key(gguf, GGUF_UNKNOWN, "has no token of the vocabulary for other words by the key");
        return;
    }
    add_post_processor(t, gguf, true);
    strbuf_format(&t->json,
                  ",\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
                  "\"strip_accents\":%s,\"lowercase\":%s}",
                  gguf_int_or(gguf, GGUF_STRIP_ACCENTS, lower) != 0 ? "true" : "false", lower ? "true" : "false");
    strbuf_text(&t->json,
                ",\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##"
                "\",\"cleanup\":true},\"model\":{\"type\":"
                "\"WordPiece\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\"unk_token\":");
    add_quoted(&t->json, text);
    strbuf_text(&t->json, ",");
    add_vocabulary(t, false);
    strbuf_text(&t->json, "}}");
}

static void add_base64(struct strbuf *json, const uint8_t *data, uint64_t bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (uint64_t i = 0; i < bytes; i += 3) {
        const uint32_t left = bytes - i < 3 ? (uint32_t)(bytes - i) : 3;
        const uint32_t bits = (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
                              (left > 2 ? (uint32_t)data[i + 2] : 0);
        const char four[] = { digits[bits >> 18], digits[bits >> 12 & 63], left > 1 ? digits[bits >> 6 & 63] : '=',
                              left > 2 ? digits[bits & 63] : '=' };

        strbuf_add(json, four, sizeof four);
    }
}

/* SentencePiece's unigrams, of words that begin with a mark. */
static void add_unigrams(struct tokenizer *t, struct gguf *gguf)
{
    const struct gguf_value *map = gguf_find(gguf, GGUF_CHARACTERS);
    const int64_t unknown = token_id(t, gguf, GGUF_UNKNOWN, 2);

    if (t->scores == NULL || t->scores->count < t->tokens->count)
        gguf_fail_key(gguf, GGUF_SCORES, "has not a number for each token by the key");
    if (map != NULL && gguf_number_bytes(map->item_type) != 1)
        gguf_fail_key(gguf, GGUF_CHARACTERS, "needs an array of bytes for the key");
    if (gguf->status != INLAY_OK)
        return;
    add_post_processor(t, gguf, false);
    strbuf_text(&t->json, ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    if (map != NULL && map->count > 0) {
        strbuf_text(&t->json, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
        add_base64(&t->json, map->data, map->count);
        strbuf_text(&t->json, "\"},");
    }
    strbuf_text(&t->json,
                "{\"type\":\"Strip\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" "
                "\"}]},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":"
                "\"always\"},\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":"
                "\"always\"},\"model\":{\"type\":\"Unigram\",");
    if (unknown >= 0)
        strbuf_format(&t->json, "\"unk_id\":%" PRId64 ",", unknown);
    add_vocabulary(t, true);
    strbuf_text(&t->json, "}}");
}

/* Adds a token to the list of those that end a text, unless the list has it. */
static void add_end(struct tokenizer *t, int64_t id)
{
    bool known = id < 0;

    for (size_t i = 0; i < t->end_count && !known; i++)
        known = t->ends[i] == id;
    if (!known && t->end_count < sizeof t->ends / sizeof *t->ends)
        t->ends[t->end_count++] = id;
}

/* Finds the tokens that end a text or a turn: those of keys, and as in llama.cpp those whose text says so. */
static void find_ends(struct tokenizer *t, struct gguf *gguf)
{
    const int64_t pad = token_id(t, gguf, GGUF_FILL_PAD, -1), files = token_id(t, gguf, GGUF_FILL_FILE, -1),
                  repository = token_id(t, gguf, GGUF_FILL_REPOSITORY, -1);
    const uint8_t *at = t->tokens->data;

    add_end(t, last_token(t, gguf));
    add_end(t, token_id(t, gguf, GGUF_END_OF_TURN, -1));
    add_end(t, token_id(t, gguf, GGUF_END_OF_MESSAGE, -1));
    add_end(t, pad);
    add_end(t, repository);
    add_end(t, files);
    for (uint64_t id = 0; id < t->tokens->count; id++) {
        const int name = end_name(gguf_next_text(&at));
        const bool replaced = is_other(t, name) || (name >= PAD && name < REPOSITORY && pad >= 0) ||
                              (name >= REPOSITORY && name < FILES && repository >= 0) || (name == FILES && files >= 0);

        if (name >= 0 && !replaced)
            add_end(t, (int64_t)id);
    }
}

/* config.json: the tokens that end a text or a turn, and the context. */
static void write_config(struct tokenizer *t, struct gguf *gguf, struct wire *out)
{
    struct strbuf json = { 0 };

    find_ends(t, gguf);
    strbuf_text(&json, "{\"eos_token_id\":[");
    for (size_t i = 0; i < t->end_count; i++)
        strbuf_format(&json, "%s%" PRId64, i == 0 ? "" : ",", t->ends[i]);
    strbuf_format(&json, "],\"max_position_embeddings\":%" PRId64 "}", gguf->context);
    onnx_property(out, "config.json", json.data, json.size);
    out->failed |= json.failed;
    strbuf_deinit(&json);
}

/* generation_config.json: the parameters of requests that do not state them. */
static void write_sampling(struct gguf *gguf, struct wire *out)
{
    static const struct {
        enum gguf_key key;
        const char *name;
        double least, most;
    } rows[] = { { GGUF_USUAL_TEMPERATURE, "temperature", 0, 2 },
                 { GGUF_USUAL_TOP_K, "top_k", -1, 1 << 24 },
                 { GGUF_USUAL_TOP_P, "top_p", 0, 1 },
                 { GGUF_USUAL_MIN_P, "min_p", 0, 1 },
                 { GGUF_USUAL_PENALTY, "repetition_penalty", 0.01, 100 } };
    const struct gguf_value *suppressed = gguf_find(gguf, GGUF_SUPPRESSED);
    struct strbuf json = { 0 };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double value = gguf_float_or(gguf, rows[i].key, NAN);

        if (isnan(value) && gguf_find(gguf, rows[i].key) == NULL)
            continue;
        if (!(value >= rows[i].least && value <= rows[i].most))
            gguf_fail_key(gguf, rows[i].key, "has a value that is out of range for the key");
        strbuf_format(&json, "%s\"%s\":%.9g", json.size == 0 ? "{" : ",", rows[i].name, value);
    }
    for (uint64_t i = 0; suppressed != NULL && i < suppressed->count; i++)
        strbuf_format(&json, "%s%.17g%s",
                      i > 0            ? ","
                      : json.size == 0 ? "{\"suppress_tokens\":["
                                       : ",\"suppress_tokens\":[",
                      gguf_item(suppressed, i), i + 1 == suppressed->count ? "]" : "");
    strbuf_text(&json, "}");
    if (json.size > 1)
        onnx_property(out, "generation_config.json", json.data, json.size);
    out->failed |= json.failed;
    strbuf_deinit(&json);
}

static void add_member(struct strbuf *json, const char *key, struct gguf_text text)
{
    if (text.data == NULL)
        return;
    strbuf_format(json, "%s\"%s\":", json->size > 1 ? "," : "", key);
    add_quoted(json, text);
}

/* chat_template: a text, or an array of named ones. */
static void add_templates(struct strbuf *json, struct gguf *gguf)
{
    static const struct {
        enum gguf_key key;
        char name[9];
    } forms[] = { { GGUF_TEMPLATE, "default" }, { GGUF_TOOL_TEMPLATE, "tool_use" }, { GGUF_PAIR_TEMPLATE, "rerank" } };
    const struct gguf_text own = gguf_string(gguf, GGUF_TEMPLATE);
    bool first = true;

    if (gguf_find(gguf, GGUF_TOOL_TEMPLATE) == NULL && gguf_find(gguf, GGUF_PAIR_TEMPLATE) == NULL) {
        add_member(json, "chat_template", own);
        return;
    }
    strbuf_format(json, "%s\"chat_template\":[", json->size > 1 ? "," : "");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const struct gguf_text form = gguf_string(gguf, forms[i].key);

        if (form.data == NULL)
            continue;
        strbuf_format(json, "%s{\"name\":\"%s\",\"template\":", first ? "" : ",", forms[i].name);
        add_quoted(json, form);
        strbuf_text(json, "}");
        first = false;
    }
    strbuf_text(json, "]");
}

/* tokenizer_config.json: the chat templates and the texts of the tokens that begin and end a text, and of those around
 * the parts of a text whose middle is wanted, as CodeLlama's file names them. */
static void write_tokenizer_config(struct tokenizer *t, struct gguf *gguf, struct wire *out)
{
    static const struct {
        enum gguf_key key, old;
        const char *name;
    } fills[] = { { GGUF_FILL_PREFIX, GGUF_OLD_PREFIX, "prefix_token" },
                  { GGUF_FILL_SUFFIX, GGUF_OLD_SUFFIX, "suffix_token" },
                  { GGUF_FILL_MIDDLE, GGUF_OLD_MIDDLE, "middle_token" } };
    struct strbuf json = { 0 };

    strbuf_text(&json, "{");
    add_member(&json, "bos_token", text_of(t, first_token(t, gguf)));
    add_member(&json, "eos_token", text_of(t, last_token(t, gguf)));
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++)
        add_member(&json, fills[i].name,
                   text_of(t, token_id(t, gguf, fills[i].key, token_id(t, gguf, fills[i].old, -1))));
    add_templates(&json, gguf);
    strbuf_text(&json, "}");
    onnx_property(out, "tokenizer_config.json", json.data, json.size);
    out->failed |= json.failed;
    strbuf_deinit(&json);
}

/* Finds which of end_names the vocabulary has, and checks that it fits the table of embeddings. */
static void check_tokens(struct tokenizer *t, struct gguf *gguf)
{
    const struct gguf_tensor *embedding = gguf_tensor(gguf, "token_embd.weight");
    const uint8_t *at = t->tokens->data;

    if (embedding != NULL && t->tokens->count > (uint64_t)embedding->dims[1])
        gguf_fail_key(gguf, GGUF_TOKENS, "has more tokens than rows of 'token_embd.weight' by the key");
    if (t->types != NULL && t->types->count < t->tokens->count)
        gguf_fail_key(gguf, GGUF_TOKEN_TYPES, "has not a type for each token by the key");
    for (uint64_t id = 0; id < t->tokens->count; id++) {
        const int name = end_name(gguf_next_text(&at));

        t->names |= name >= 0 ? UINT64_C(1) << name : 0;
    }
}

void gguf_write_tokenizer(struct gguf *gguf, struct wire *out)
{
    const struct gguf_text model = gguf_string(gguf, GGUF_TOKENIZER);
    struct tokenizer t = { .tokens = gguf_find(gguf, GGUF_TOKENS),
                           .types = gguf_find(gguf, GGUF_TOKEN_TYPES),
                           .scores = gguf_find(gguf, GGUF_SCORES),
                           .merges = gguf_find(gguf, GGUF_MERGES),
                           .by_scores = gguf_text_is(model, "llama"),
                           .of_words = gguf_text_is(model, "bert"),
                           .of_pieces = gguf_text_is(model, "t5") && gguf_int(gguf, GGUF_JOIN_SPACES) != 0 };
    const struct gguf_text splitter = gguf_string(gguf, GGUF_SPLITTER), name = gguf_string(gguf, GGUF_NAME_OF_MODEL);

    if (model.data == NULL) { /* the model runs without, and says so when texts are wanted of it */
        onnx_property(out, "tokenizer.ggml.model", "none", 4);
        return;
    }
    t.splitter = splitter.bytes > 0 ? splitter : (struct gguf_text){ "default", 7 };
    t.separates = t.of_words || is_among(t.splitter, separating);
    t.masks = is_among(t.splitter, masking) || gguf_text_is(gguf->architecture, "jina-bert-v3");
    t.strips = !t.masks && (mentions(name, "phi-3") || mentions(name, "phi3"));
    if (!t.by_scores && !t.of_words && !t.of_pieces && !is_among(model, "gpt2\0whitespace\0")) { /* likewise */
        onnx_property(out, "tokenizer.ggml.model", model.data, model.bytes);
        return;
    }
    if (t.tokens == NULL)
        gguf_fail_key(gguf, GGUF_TOKENS, "lacks the key");
    else
        check_tokens(&t, gguf);
    if (gguf->status != INLAY_OK)
        return;
    strbuf_text(&t.json, "{");
    add_special_tokens(&t);
    if (t.by_scores)
        add_sentencepiece(&t, gguf);
    else if (t.of_words)
        add_wordpiece(&t, gguf);
    else if (t.of_pieces)
        add_unigrams(&t, gguf);
    else
        add_merged(&t, gguf);
    if (gguf->status == INLAY_OK) {
        onnx_property(out, "tokenizer.json", t.json.data, t.json.size);
        write_tokenizer_config(&t, gguf, out);
        write_config(&t, gguf, out);
        write_sampling(gguf, out);
        out->failed |= t.json.failed;
    }
    strbuf_deinit(&t.json);
}
