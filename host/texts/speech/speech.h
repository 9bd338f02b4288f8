/* texts/speech/speech.h - models of the kind Whisper, which write down speech: an encoder, a decoder with attention to
 * what the encoder has read, a tokenizer.
 *
 * A sound is decoded, and its log-mel spectrogram computed, by speech_hear(). The encoder reads windows of 30 s. For
 * each, the decoder writes the text, which has tokens of times if the transcription has times; these say where the
 * next window begins. A sound of more than one window therefore has times. */
#ifndef TEXTS_SPEECH_H
#define TEXTS_SPEECH_H
#include "base/strbuf.h"
#include "texts/decode/model.h"
#include "texts/tokens/generation.h"
#include "texts/tokens/tokenizer.h"
#include <limits.h>

enum {
    SPEECH_CODE = 8,           /* bytes of a code of a language, such as "en" */
    SPEECH_MOST_SECONDS = 7200 /* of a sound */
};

/* The files of a model in a folder as Hugging Face publishes it. */
typedef struct speech_files {
    char encoder[PATH_MAX], decoder[PATH_MAX];
    char past[PATH_MAX]; /* decoder_with_past_model; "": the decoder does without */
} speech_files;

/* Whether the folder has a config.json with the model_type whisper, an encoder and a decoder. */
bool speech_is_folder(const char *folder);
/* The files of such a folder; variant: of model_folder_choose(). */
INLAY_NODISCARD inlay_status speech_files_find(const char *folder, const char *variant, speech_files *out_files,
                                               inlay_diag *diag);

/* When the text of a window is doubted: then it is written again at the next temperature, or left out. */
typedef struct speech_doubts {
    double logprob;     /* if the mean of its tokens is below; -INFINITY: never */
    double compression; /* if zlib makes it shorter by more than this factor, as it does repetitions; INFINITY: never */
    double no_speech;   /* and it is left out if the probability of no speech is above; INFINITY: never */
} speech_doubts;

typedef struct speech_language {
    char code[SPEECH_CODE];
    int64_t token;
} speech_language;

/* Tokens with a meaning; -1: the model has none. */
typedef struct speech_tokens {
    int64_t start, end, previous, transcribe, translate, no_speech, no_times;
    int64_t first_time;         /* the token of 0 s; each later one is 0.02 s more */
    int64_t initial_time;       /* largest index of the first time of a window; -1: any */
    speech_language *languages; /* [language_count] owned; none: the model has one language */
    size_t language_count;
    size_t most; /* of a window with its prompt */
} speech_tokens;

/* What an input of a decoder is. */
typedef struct speech_input {
    enum { SPEECH_IDS, SPEECH_HIDDEN, SPEECH_PAST, SPEECH_BRANCH, SPEECH_POSITIONS } role;
    uint32_t state; /* of SPEECH_PAST: its index */
} speech_input;

/* A session of the decoder. */
typedef struct speech_decoder {
    decode_model model;
    speech_input *inputs; /* [input_count] owned */
    uint32_t input_count;
    uint32_t *states; /* [state_count] output of each state; INLAY_NONE: it has none; owned */
    bool has_past, has_branch;
} speech_decoder;

typedef struct speech_model {
    decode_model encoder;
    speech_decoder decoder, next; /* next: decoder_with_past_model; its session is NULL: the decoder does without */
    struct tokenizer *tokenizer;
    speech_tokens tokens;
    generation_settings generation;
    speech_doubts doubts;
    struct spectrogram *spectrogram; /* owned */
    int64_t rate;                    /* samples a second */
    int64_t mels, hop;               /* rows of the spectrogram; samples between its frames */
    int64_t window_frames;           /* of the spectrogram, 3000 */
    uint32_t features;               /* input of the encoder */
    uint32_t hidden;                 /* output of the encoder */
    uint32_t state_count;            /* of the decoder */
    bool *is_cross; /* [state_count] of what the encoder has read: it is the same for all tokens; owned */
    int64_t heads, head_width;
    uint32_t most_lanes, most_waiting; /* transcriptions that run, and wait, at once */
    struct speech_runner *runner;      /* NULL before the first struct transcription */
} speech_model;

/* The sessions are borrowed. */
typedef struct speech_source {
    const char *folder;                      /* with config.json, tokenizer.json, ... */
    inlay_session *encoder, *decoder, *past; /* past: NULL: none */
} speech_source;

/* Opens a model. The caller then sets program, owner and name of the three decode_models, and the limits.
 *     INLAY_INVALID_ARGUMENT  a file of the folder is missing or damaged
 *     INLAY_UNSUPPORTED       an input or a setting is not understood; the message names it */
INLAY_NODISCARD inlay_status speech_model_open(const speech_source *source, speech_model **out_model, inlay_diag *diag);
/* NULL is a no-op. Its transcriptions must have ended. */
void speech_model_close(speech_model *model);
/* The index of a language, by its code or "" or NULL (SPEECH_DETECT). INLAY_INVALID_ARGUMENT: the model lacks it. */
enum { SPEECH_DETECT = -1 };
INLAY_NODISCARD inlay_status speech_find_language(const speech_model *model, const char *code, int32_t *out_language,
                                                  inlay_diag *diag);

/* A sound as the encoder reads it. */
typedef struct speech_sound {
    float *mel;     /* [mels, frames] owned */
    int64_t frames; /* of a short sound: those of a window, padded with silence */
    int64_t heard;  /* frames of the sound itself */
    double seconds;
} speech_sound;

/* Decodes a file: WAV, and what libsndfile reads. goes_on: asked from time to time; false, with diag: to be given up.
 * *out_sound is to be freed by speech_sound_deinit(), also after a failure.
 *     INLAY_INVALID_ARGUMENT  the file is damaged, or has no samples
 *     INLAY_LIMIT_EXCEEDED    it is longer than SPEECH_MOST_SECONDS */
INLAY_NODISCARD inlay_status speech_hear(const speech_model *model, const void *file, size_t bytes,
                                         bool (*goes_on)(void *user, inlay_diag *diag), void *user,
                                         speech_sound *out_sound, inlay_diag *diag);
void speech_sound_deinit(speech_sound *sound);

/* A part of the text, in the order of the sound. */
typedef struct speech_segment {
    size_t first, count; /* of the tokens of the transcription, without those of times */
    double begin, end;   /* seconds */
    int64_t seek;        /* frame at which its window begins */
    double logprob;      /* the mean of its window's tokens */
    double no_speech;    /* probability that its window has no speech; 0: unknown */
    double temperature;  /* of its window */
} speech_segment;

struct transcription {
    /* The caller sets these; the rest is zeroed. */
    speech_sound sound;
    int32_t language; /* index, or SPEECH_DETECT */
    bool translates;  /* to English */
    bool has_times;
    const char *prompt; /* a text that might come before the sound's; NULL: none; borrowed */
    float temperature;  /* 0: always the most probable token; of the first attempt of a window */
    /* Returns true if it was cancelled or its client has left; diag says why. */
    bool (*is_over)(struct transcription *text, inlay_diag *diag);
    /* Called once, on any thread, perhaps before transcription_add() returns. failure: NULL: it is complete. */
    void (*end)(struct transcription *text, const inlay_diag *failure);
    void *user;

    /* Results. */
    int64_t *tokens; /* [token_count] owned */
    size_t token_count;
    speech_segment *segments; /* [segment_count] owned */
    size_t segment_count;
    uint64_t compute_ns;  /* of its runs */
    uint64_t read_tokens; /* of all prompts */

    /* Owned by the runner. */
    int64_t *prompt_tokens; /* [prompt_count] */
    size_t prompt_count;
    int64_t seek;
    struct transcription *next;
};

/* Begins a transcription, or lets it wait for others. INLAY_BUSY: too many wait; end() is not called then. */
INLAY_NODISCARD inlay_status transcription_add(speech_model *model, struct transcription *text, inlay_diag *diag);
void transcription_deinit(struct transcription *text);
/* Adds the text of tokens. Bytes that are no UTF-8 become U+FFFD. */
void speech_text(const speech_model *model, const int64_t *tokens, size_t count, struct strbuf *to);
/* The same for all of it, without spaces around it. */
void transcription_text(const speech_model *model, const struct transcription *text, struct strbuf *to);
/* Adds the segments as subtitles: SubRip, or WebVTT. */
typedef enum subtitle_form { SUBTITLE_SRT, SUBTITLE_VTT } subtitle_form;
void transcription_subtitles(const speech_model *model, const struct transcription *text, subtitle_form form,
                             struct strbuf *to);
#endif
