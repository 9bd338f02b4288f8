/* pipe_text.c - the steps for sound and text, and for what comes behind a model. */
#include "pipe/pipe_parts.h"
#include <string.h>

/* ------------------------------------------------------------------ sound */

static inlay_status want_sound(pipe_chain *c)
{
    static const int64_t dims[2] = { 1, -1 };
    static const char *const names[2] = { NULL, "samples" };
    inlay_status status;

    if (c->kind == PIPE_SOUND)
        return INLAY_OK;
    if (c->kind != PIPE_NOTHING)
        return pipe_fail(c, "it takes sound: put audio before it");
    status = pipe_input(c, "sound", INLAY_FLOAT, 2, dims, names);
    c->kind = PIPE_SOUND;
    return status;
}

static inlay_status audio(pipe_chain *c)
{
    static const int64_t dims[1] = { -1 };
    static const char *const names[1] = { "file_bytes" };
    const char *word = pipe_word(c);
    int64_t rate[2] = { 16000, 0 };
    graph_node *n;
    inlay_status status;

    if (c->kind != PIPE_NOTHING)
        return pipe_fail(c, "it is the first step");
    if (word != NULL && (pipe_size(c, word, rate) != INLAY_OK || rate[1] != 0))
        return pipe_fail(c, "expected samples a second, as in audio:16000");
    INLAY_TRY(pipe_input(c, "file", INLAY_UINT8, 1, dims, names));
    INLAY_TRY(pipe_node(c, PIPE_EXTENSIONS, "AudioDecoder", &n));
    INLAY_TRY(graph_set_attr_int(c->g, n, "downsampling_rate", rate[0]));
    INLAY_TRY(graph_set_attr_int(c->g, n, "stereo_to_mono", 1));
    c->kind = PIPE_SOUND;
done:
    return status;
}

static inlay_status mel(pipe_chain *c)
{
    const char *preset = pipe_word(c);
    const bool librosa = preset != NULL && strcmp(preset, "librosa") == 0;
    int64_t bands = pipe_target_rank(c) == 3 ? pipe_target_size(c, 1) : -1, rate, fft, hop, mels, samples;
    graph_node *n;
    inlay_status status;

    if (preset != NULL && !librosa && strcmp(preset, "whisper") != 0)
        return pipe_fail(c, "'%s' is neither whisper nor librosa", preset);
    INLAY_TRY(want_sound(c));
    INLAY_TRY(pipe_int(c, "rate", librosa ? 22050 : 16000, 1, 1000000, &rate));
    INLAY_TRY(pipe_int(c, "n_fft", librosa ? 2048 : 400, 2, 1 << 20, &fft));
    INLAY_TRY(pipe_int(c, "hop", librosa ? 512 : 160, 1, 1 << 20, &hop));
    INLAY_TRY(pipe_int(c, "mels", librosa ? 128 : bands > 0 ? bands : 80, 1, 4096, &mels));
    INLAY_TRY(pipe_int(c, "samples", librosa ? 0 : 480000, 0, INT64_C(1) << 31, &samples));
    INLAY_TRY(pipe_node(c, PIPE_DOMAIN, "MelSpectrogram", &n));
    INLAY_TRY(graph_set_attr_int(c->g, n, "sample_rate", rate));
    INLAY_TRY(graph_set_attr_int(c->g, n, "n_fft", fft));
    INLAY_TRY(graph_set_attr_int(c->g, n, "hop", hop));
    INLAY_TRY(graph_set_attr_int(c->g, n, "mels", mels));
    INLAY_TRY(graph_set_attr_int(c->g, n, "samples", samples));
    INLAY_TRY(graph_set_attr_string(c->g, n, "log", librosa ? "none" : "whisper"));
    INLAY_TRY(graph_set_attr_string(c->g, n, "pad", librosa ? "zero" : "reflect"));
    c->kind = PIPE_NUMBERS;
done:
    return status;
}

/* ------------------------------------------------------------------ text */

/* A string attribute of any bytes. */
static inlay_status set_bytes(pipe_chain *c, graph_node *n, const char *name, inlay_str text)
{
    const inlay_attr_info a = { .name = { name, strlen(name) }, .kind = INLAY_ATTR_STRING, .s = text };

    return graph_set_attr(c->g, n, &a);
}

/* Gives a node more outputs than its first, the end of the chain. */
static inlay_status more_outputs(pipe_chain *c, graph_node *n, const char *const *names, uint32_t count, uint32_t *made)
{
    uint32_t *outputs = arena_array(&c->model->arena, count + 1, sizeof *outputs);

    if (outputs == NULL)
        return no_memory(c->diag, "for the steps");
    outputs[0] = c->value;
    for (uint32_t i = 0; i < count; i++) {
        outputs[i + 1] = made[i] = pipe_value(c, names[i]);
        if (made[i] == INLAY_NONE)
            return no_memory(c->diag, "for the steps");
    }
    n->info.outputs = outputs;
    n->info.output_count = count + 1;
    return INLAY_OK;
}

static inlay_status tokenize(pipe_chain *c)
{
    static const int64_t dims[1] = { -1 };
    static const char *const names[1] = { "texts" }, *const more[2] = { "tokens_mask", "tokens_types" };
    static const char *const inputs[3] = { "input_ids", "attention_mask", "token_type_ids" };
    const char *path = pipe_word(c);
    uint32_t made[3] = { 0 };
    int64_t max;
    inlay_str text;
    bool found;
    graph_node *n;
    inlay_status status;

    if (c->kind != PIPE_NOTHING)
        return pipe_fail(c, "it is the first step");
    if (path == NULL)
        return pipe_fail(c, "name the file of the tokenizer, as in tokenize:tokenizer.json");
    INLAY_TRY(pipe_file(c, path, &text));
    INLAY_TRY(pipe_int(c, "max", 0, 0, 1 << 24, &max));
    INLAY_TRY(pipe_input(c, "text", INLAY_STRING, 1, dims, names));
    INLAY_TRY(pipe_node(c, PIPE_DOMAIN, "Tokenize", &n));
    INLAY_TRY(set_bytes(c, n, "model", text));
    if (max > 0)
        INLAY_TRY(graph_set_attr_int(c->g, n, "max_length", max));
    made[0] = c->value;
    INLAY_TRY(more_outputs(c, n, more, 2, made + 1));
    for (int i = 0; i < 3; i++) {
        INLAY_TRY(pipe_feed(c, i == 0 && c->request->input != NULL ? c->request->input : inputs[i], made[i],
                            INLAY_INT64, &found));
        if (i == 0 && !found)
            return pipe_fail(c, "the model has no input 'input_ids': name the one for ids with --input");
    }
    c->kind = PIPE_DONE;
done:
    return status;
}

/* ------------------------------------------------------------------ behind the model */

static inlay_status want_numbers(pipe_chain *c)
{
    return c->kind == PIPE_NUMBERS ? INLAY_OK : pipe_fail(c, "it takes numbers, not a picture");
}

static inlay_status softmax(pipe_chain *c)
{
    graph_node *n;
    inlay_status status;

    INLAY_TRY(want_numbers(c));
    INLAY_TRY(pipe_node(c, "", "Softmax", &n));
    INLAY_TRY(graph_set_attr_int(c->g, n, "axis", -1));
done:
    return status;
}

static inlay_status topk(pipe_chain *c)
{
    static const char *const more[2] = { "scores", "indices" };
    const char *count = pipe_word(c), *path = pipe_word(c);
    uint32_t made[2] = { 0 };
    int64_t k[2] = { 5, 0 };
    inlay_str labels = { "", 0 };
    graph_node *n;
    inlay_status status;

    INLAY_TRY(want_numbers(c));
    if (count != NULL)
        INLAY_TRY(pipe_size(c, count, k));
    if (path != NULL)
        INLAY_TRY(pipe_file(c, path, &labels));
    INLAY_TRY(pipe_node(c, PIPE_DOMAIN, "TopKLabels", &n));
    INLAY_TRY(graph_set_attr_int(c->g, n, "k", k[0]));
    INLAY_TRY(set_bytes(c, n, "labels", labels));
    INLAY_TRY(more_outputs(c, n, more, 2, made));
    INLAY_TRY(pipe_output(c, c->value, INLAY_STRING, 2));
    INLAY_TRY(pipe_output(c, made[0], INLAY_FLOAT, 2));
    INLAY_TRY(pipe_output(c, made[1], INLAY_INT64, 2));
    c->kind = PIPE_DONE;
done:
    return status;
}

static inlay_status ctc(pipe_chain *c)
{
    static const char *const more[1] = { "confidence" };
    const char *path = pipe_word(c);
    int64_t beam, blank;
    inlay_str alphabet;
    uint32_t made = 0;
    graph_node *n;
    inlay_status status;

    INLAY_TRY(want_numbers(c));
    if (path == NULL)
        return pipe_fail(c, "name the file of the alphabet, a letter each line, as in ctc:keys.txt");
    INLAY_TRY(pipe_file(c, path, &alphabet));
    INLAY_TRY(pipe_int(c, "beam", 1, 1, 1000, &beam));
    INLAY_TRY(pipe_int(c, "blank", 0, -1, 1 << 20, &blank));
    INLAY_TRY(pipe_node(c, PIPE_DOMAIN, "CtcDecode", &n));
    INLAY_TRY(set_bytes(c, n, "alphabet", alphabet));
    INLAY_TRY(graph_set_attr_int(c->g, n, "beam", beam));
    INLAY_TRY(graph_set_attr_int(c->g, n, "blank", blank));
    INLAY_TRY(more_outputs(c, n, more, 1, &made));
    INLAY_TRY(pipe_output(c, c->value, INLAY_STRING, 1));
    INLAY_TRY(pipe_output(c, made, INLAY_FLOAT, 1));
    c->kind = PIPE_DONE;
done:
    return status;
}

/* Ids of any rank and width, such as a search's [prompts, sequences, length]: a text for each row. */
static inlay_status detokenize(pipe_chain *c)
{
    const char *path = pipe_word(c);
    const uint32_t rank = pipe_target_rank(c);
    inlay_str text;
    graph_node *n;
    inlay_status status;

    INLAY_TRY(want_numbers(c));
    if (path == NULL)
        return pipe_fail(c, "name the file of the tokenizer, as in detokenize:tokenizer.json");
    INLAY_TRY(pipe_file(c, path, &text));
    c->makes = "ids";
    INLAY_TRY(pipe_node(c, "", "Flatten", &n));
    INLAY_TRY(graph_set_attr_int(c->g, n, "axis", rank != INLAY_RANK_UNKNOWN && rank > 0 ? (int64_t)rank - 1 : -1));
    INLAY_TRY(pipe_node(c, "", "Cast", &n));
    INLAY_TRY(graph_set_attr_int(c->g, n, "to", INLAY_INT64));
    c->makes = "text";
    INLAY_TRY(pipe_node(c, PIPE_DOMAIN, "Detokenize", &n));
    INLAY_TRY(set_bytes(c, n, "model", text));
    INLAY_TRY(pipe_output(c, c->value, INLAY_STRING, 1));
    c->kind = PIPE_DONE;
done:
    return status;
}

static inlay_status boxes(pipe_chain *c)
{
    static const char *const more[1] = { "classes" };
    const char *word = pipe_word(c), *path = pipe_option(c, "labels");
    double score, iou;
    int64_t most;
    inlay_str labels = { "", 0 };
    uint32_t *inputs, made = 0;
    graph_node *n;
    inlay_status status;

    if (word != NULL && strcmp(word, "v8") != 0 && strcmp(word, "v5") != 0)
        return pipe_fail(c, "'%s' is neither v8 nor v5", word);
    INLAY_TRY(want_numbers(c));
    INLAY_TRY(pipe_float(c, "score", 0.25, &score));
    INLAY_TRY(pipe_float(c, "iou", 0.45, &iou));
    INLAY_TRY(pipe_int(c, "most", 300, 1, 100000, &most));
    if (path != NULL)
        INLAY_TRY(pipe_file(c, path, &labels));
    INLAY_TRY(pipe_node(c, PIPE_DOMAIN, "YoloBoxes", &n));
    INLAY_TRY(graph_set_attr_string(c->g, n, "layout", word != NULL ? word : "v8"));
    INLAY_TRY(graph_set_attr_float(c->g, n, "score", score));
    INLAY_TRY(graph_set_attr_float(c->g, n, "iou", iou));
    INLAY_TRY(graph_set_attr_int(c->g, n, "most", most));
    INLAY_TRY(set_bytes(c, n, "labels", labels));
    if (c->place != INLAY_NONE) {
        inputs = arena_array(&c->model->arena, 2, sizeof *inputs);
        if (inputs == NULL)
            return no_memory(c->diag, "for the steps");
        inputs[0] = n->info.inputs[0];
        inputs[1] = c->place;
        n->info.inputs = inputs;
        n->info.input_count = 2;
    }
    INLAY_TRY(more_outputs(c, n, more, 1, &made));
    INLAY_TRY(pipe_output(c, c->value, INLAY_FLOAT, 2));
    INLAY_TRY(pipe_output(c, made, INLAY_STRING, 1));
    c->kind = PIPE_DONE;
done:
    return status;
}

const pipe_step pipe_text_steps[] = {
    { "audio", "samples", true, false, audio },
    { "mel", "spectrogram", true, false, mel },
    { "tokenize", "tokens", true, false, tokenize },
    { "softmax", "probabilities", false, true, softmax },
    { "topk", "labels", false, true, topk },
    { "ctc", "text", false, true, ctc },
    { "boxes", "boxes", false, true, boxes },
    { "detokenize", "text", false, true, detokenize },
    { 0 },
};
