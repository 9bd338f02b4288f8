/* pipe_text.c - the steps for audio and text, and for the outputs of a model. */
#include "pipe/pipe_parts.h"
#include "inlay/check.h"
#include <string.h>

static inlay_status want_sound(pipe_chain *chain)
{
    static const int64_t dims[2] = { 1, -1 };
    static const char *const names[2] = { NULL, "samples" };
    inlay_status status;

    if (chain->kind == PIPE_SOUND)
        return INLAY_OK;
    if (chain->kind != PIPE_NOTHING)
        return pipe_fail(chain, "it needs audio: put audio before it");
    status = pipe_input(chain, "sound", INLAY_FLOAT, 2, dims, names);
    chain->kind = PIPE_SOUND;
    return status;
}

static inlay_status audio(pipe_chain *chain)
{
    static const int64_t dims[1] = { -1 };
    static const char *const names[1] = { "file_bytes" };
    const char *word = pipe_word(chain);
    int64_t rate[2] = { 16000, 0 };
    graph_node *node;
    inlay_status status;

    if (chain->kind != PIPE_NOTHING)
        return pipe_fail(chain, "it must be the first step");
    if (word != NULL && (pipe_size(chain, word, rate) != INLAY_OK || rate[1] != 0))
        return pipe_fail(chain, "expected samples per second, as in audio:16000");
    INLAY_TRY(pipe_input(chain, "file", INLAY_UINT8, 1, dims, names));
    INLAY_TRY(pipe_node(chain, PIPE_EXTENSIONS, "AudioDecoder", &node));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "downsampling_rate", rate[0]));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "stereo_to_mono", 1));
    chain->kind = PIPE_SOUND;
done:
    return status;
}

static inlay_status mel(pipe_chain *chain)
{
    const char *preset = pipe_word(chain);
    const bool librosa = preset != NULL && strcmp(preset, "librosa") == 0;
    int64_t bands = pipe_target_rank(chain) == 3 ? pipe_target_size(chain, 1) : -1, rate, fft, hop, mels, samples;
    graph_node *node;
    inlay_status status;

    if (preset != NULL && !librosa && strcmp(preset, "whisper") != 0)
        return pipe_fail(chain, "'%s' is neither whisper nor librosa", preset);
    INLAY_TRY(want_sound(chain));
    INLAY_TRY(pipe_int(chain, "rate", librosa ? 22050 : 16000, 1, 1000000, &rate));
    INLAY_TRY(pipe_int(chain, "n_fft", librosa ? 2048 : 400, 2, 1 << 20, &fft));
    INLAY_TRY(pipe_int(chain, "hop", librosa ? 512 : 160, 1, 1 << 20, &hop));
    INLAY_TRY(pipe_int(chain, "mels", librosa ? 128 : bands > 0 ? bands : 80, 1, 4096, &mels));
    INLAY_TRY(pipe_int(chain, "samples", librosa ? 0 : 480000, 0, INT64_C(1) << 31, &samples));
    INLAY_TRY(pipe_node(chain, PIPE_DOMAIN, "MelSpectrogram", &node));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "sample_rate", rate));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "n_fft", fft));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "hop", hop));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "mels", mels));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "samples", samples));
    INLAY_TRY(graph_set_attr_string(chain->graph, node, "log", librosa ? "none" : "whisper"));
    INLAY_TRY(graph_set_attr_string(chain->graph, node, "pad", librosa ? "zero" : "reflect"));
    chain->kind = PIPE_NUMBERS;
done:
    return status;
}

inlay_status pipe_text_attr(pipe_chain *chain, graph_node *node, const char *name, inlay_str text)
{
    const inlay_attr_info attribute = { .name = { name, strlen(name) }, .kind = INLAY_ATTR_STRING, .s = text };

    return graph_set_attr(chain->graph, node, &attribute);
}

/* Adds outputs to a node after its first one, which is the end of the chain. */
static inlay_status more_outputs(pipe_chain *chain, graph_node *node, const char *const *names, uint32_t count,
                                 uint32_t *made)
{
    uint32_t *outputs = arena_array(&chain->model->arena, count + 1, sizeof *outputs);

    if (outputs == NULL)
        return no_memory(chain->diag, "for the steps");
    INLAY_CHECK(chain->maker == node);
    outputs[0] = chain->value;
    for (uint32_t i = 0; i < count; i++) {
        outputs[i + 1] = made[i] = pipe_value(chain, names[i]);
        if (made[i] == INLAY_NONE)
            return no_memory(chain->diag, "for the steps");
    }
    node->info.outputs = outputs;
    node->info.output_count = count + 1;
    return INLAY_OK;
}

static inlay_status tokenize(pipe_chain *chain)
{
    static const int64_t dims[1] = { -1 };
    static const char *const names[1] = { "texts" }, *const more[2] = { "tokens_mask", "tokens_types" };
    static const char *const inputs[3] = { "input_ids", "attention_mask", "token_type_ids" };
    const char *path = pipe_word(chain);
    uint32_t made[3] = { 0 };
    int64_t max;
    inlay_str text;
    bool found;
    graph_node *node;
    inlay_status status;

    if (chain->kind != PIPE_NOTHING)
        return pipe_fail(chain, "it must be the first step");
    if (path == NULL)
        return pipe_fail(chain, "the tokenizer file is missing, as in tokenize:tokenizer.json");
    INLAY_TRY(pipe_file(chain, path, &text));
    INLAY_TRY(pipe_int(chain, "max", 0, 0, 1 << 24, &max));
    INLAY_TRY(pipe_input(chain, "text", INLAY_STRING, 1, dims, names));
    INLAY_TRY(pipe_node(chain, PIPE_DOMAIN, "Tokenize", &node));
    INLAY_TRY(pipe_text_attr(chain, node, "model", text));
    if (max > 0)
        INLAY_TRY(graph_set_attr_int(chain->graph, node, "max_length", max));
    made[0] = chain->value;
    INLAY_TRY(more_outputs(chain, node, more, 2, made + 1));
    for (int i = 0; i < 3; i++) {
        INLAY_TRY(pipe_feed(chain, i == 0 && chain->request->input != NULL ? chain->request->input : inputs[i], made[i],
                            INLAY_INT64, &found));
        if (i == 0 && !found)
            return pipe_fail(chain, "the model has no input 'input_ids': give the input for ids with --input");
    }
    chain->kind = PIPE_DONE;
done:
    return status;
}

static inlay_status want_numbers(pipe_chain *chain)
{
    return chain->kind == PIPE_NUMBERS ? INLAY_OK : pipe_fail(chain, "it needs numbers, not a picture");
}

static inlay_status softmax(pipe_chain *chain)
{
    graph_node *node;
    inlay_status status;

    INLAY_TRY(want_numbers(chain));
    INLAY_TRY(pipe_node(chain, "", "Softmax", &node));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "axis", -1));
done:
    return status;
}

/* INLAY_INVALID_ARGUMENT: the result has another number of classes than the file has labels, so that names would be
 * those of other classes. */
static inlay_status check_labels(pipe_chain *chain, const char *path, inlay_str labels)
{
    const uint32_t rank = pipe_target_rank(chain);
    const int64_t classes = rank == INLAY_RANK_UNKNOWN || rank == 0 ? -1 : pipe_target_size(chain, rank - 1);
    const int64_t lines = pipe_count_lines(labels);

    if (classes < 0 || classes == lines)
        return INLAY_OK;
    return pipe_fail(chain,
                     "the result has %lld classes, but %s has %lld labels: give a file with a line for each class",
                     (long long)classes, path, (long long)lines);
}

static inlay_status topk(pipe_chain *chain)
{
    static const char *const more[2] = { "scores", "indices" };
    const char *count = pipe_word(chain), *path = pipe_word(chain);
    uint32_t made[2] = { 0 };
    int64_t k[2] = { 5, 0 };
    inlay_str labels = { "", 0 };
    graph_node *node;
    inlay_status status;

    INLAY_TRY(want_numbers(chain));
    if (count != NULL)
        INLAY_TRY(pipe_size(chain, count, k));
    if (path != NULL) {
        INLAY_TRY(pipe_file(chain, path, &labels));
        INLAY_TRY(check_labels(chain, path, labels));
    }
    INLAY_TRY(pipe_node(chain, PIPE_DOMAIN, "TopKLabels", &node));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "k", k[0]));
    INLAY_TRY(pipe_text_attr(chain, node, "labels", labels));
    INLAY_TRY(more_outputs(chain, node, more, 2, made));
    INLAY_TRY(pipe_output(chain, chain->value, INLAY_STRING, 2));
    INLAY_TRY(pipe_output(chain, made[0], INLAY_FLOAT, 2));
    INLAY_TRY(pipe_output(chain, made[1], INLAY_INT64, 2));
    chain->kind = PIPE_DONE;
done:
    return status;
}

static inlay_status ctc(pipe_chain *chain)
{
    static const char *const more[1] = { "confidence" };
    const char *path = pipe_word(chain);
    int64_t beam, blank;
    inlay_str alphabet;
    uint32_t made = 0;
    graph_node *node;
    inlay_status status;

    INLAY_TRY(want_numbers(chain));
    if (path == NULL)
        return pipe_fail(chain, "the alphabet file (one letter per line) is missing, as in ctc:keys.txt");
    INLAY_TRY(pipe_file(chain, path, &alphabet));
    INLAY_TRY(pipe_int(chain, "beam", 1, 1, 1000, &beam));
    INLAY_TRY(pipe_int(chain, "blank", 0, -1, 1 << 20, &blank));
    INLAY_TRY(pipe_node(chain, PIPE_DOMAIN, "CtcDecode", &node));
    INLAY_TRY(pipe_text_attr(chain, node, "alphabet", alphabet));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "beam", beam));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "blank", blank));
    INLAY_TRY(more_outputs(chain, node, more, 1, &made));
    INLAY_TRY(pipe_output(chain, chain->value, INLAY_STRING, 1));
    INLAY_TRY(pipe_output(chain, made, INLAY_FLOAT, 1));
    chain->kind = PIPE_DONE;
done:
    return status;
}

/* Accepts ids of any rank and integer type, for example [prompts, sequences, length] of a search: one text per row. */
static inlay_status detokenize(pipe_chain *chain)
{
    const char *path = pipe_word(chain);
    const uint32_t rank = pipe_target_rank(chain);
    inlay_str text;
    graph_node *node;
    inlay_status status;

    INLAY_TRY(want_numbers(chain));
    if (path == NULL)
        return pipe_fail(chain, "the tokenizer file is missing, as in detokenize:tokenizer.json");
    INLAY_TRY(pipe_file(chain, path, &text));
    chain->makes = "ids";
    INLAY_TRY(pipe_node(chain, "", "Flatten", &node));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "axis",
                                 rank != INLAY_RANK_UNKNOWN && rank > 0 ? (int64_t)rank - 1 : -1));
    INLAY_TRY(pipe_node(chain, "", "Cast", &node));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "to", INLAY_INT64));
    chain->makes = "text";
    INLAY_TRY(pipe_node(chain, PIPE_DOMAIN, "Detokenize", &node));
    INLAY_TRY(pipe_text_attr(chain, node, "model", text));
    INLAY_TRY(pipe_output(chain, chain->value, INLAY_STRING, 1));
    chain->kind = PIPE_DONE;
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
    { "boxes", "boxes", false, true, pipe_boxes },
    { "detokenize", "text", false, true, detokenize },
    { 0 },
};
