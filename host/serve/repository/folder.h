/* serve/repository/folder.h - the models in a folder. */
#ifndef SERVE_FOLDER_H
#define SERVE_FOLDER_H
#include "inlay/status.h"
#include <stdbool.h>

enum { FOLDER_MAX_NAME = 128, FOLDER_PATH_BYTES = 4200 };

typedef struct found_model {
    char *name;
    char *path;   /* the model's file, its package, or the folder of its versions */
    char *config; /* the folder in which config.yaml or config.pbtxt may be; NULL: the model is a file alone */
    bool is_folder;
    uint64_t *versions; /* [version_count] ascending; 1 for a file */
    uint32_t version_count;
} found_model;

struct folder {
    found_model *models; /* [count] by name */
    uint32_t count;
    uint32_t refused_count; /* files and folders with models that have no permitted name */
    char refused[256];      /* the name of one of them */
};

/* Reads the folder, or the single file. Entries that are not models are skipped. name: of the only model, which may
 * also be the folder itself (VERSION/model.onnx or model.onnx in it, or .gguf); "" = each model has the name of its
 * file or folder. The folder or an entry may be a model as Hugging Face publishes it (base/model_folder.h), whose file
 * is chosen by `variant`; if it has several parts, each is a model FOLDER.PART. */
INLAY_NODISCARD inlay_status folder_read(const char *path, const char *name, const char *variant,
                                         struct folder *out_folder, inlay_diag *diag);
void folder_deinit(struct folder *folder);
/* Whether a model or an adapter may have the name: letters, digits, '.', '_' and '-', not beginning with '.', at most
 * FOLDER_MAX_NAME. */
bool folder_is_name(const char *name, size_t bytes);
/* The LoRA adapters of a version: the folders in VERSION/adapters of the model's folder, or else in adapters, that have
 * an adapter_model.safetensors or adapter_model.gguf. */
struct folder_adapters {
    char **names, **paths; /* [count] owned, in the order of the names; the path of each folder */
    uint32_t count;
};
INLAY_NODISCARD inlay_status folder_adapters_find(const found_model *model, uint64_t version,
                                                  struct folder_adapters *out, inlay_diag *diag);
/* Adds an adapter; the texts are copied. false: out of memory. */
bool folder_adapters_add(struct folder_adapters *adapters, const char *name, const char *path);
void folder_adapters_remove(struct folder_adapters *adapters, const char *name); /* if it is there */
void folder_adapters_deinit(struct folder_adapters *adapters);
/* Writes the path of model.onnx in the folder, or of model.gguf if only that exists. false: it has neither. */
bool folder_file(const char *folder_path, char path[FOLDER_PATH_BYTES]);
/* What a version consists of: one file, or the parts of a model for speech (texts/speech) or of one that reads images
 * (texts/model/image_folder.h), which are in `path`. */
typedef enum folder_kind { FOLDER_FILE, FOLDER_SPEECH, FOLDER_IMAGES } folder_kind;
folder_kind folder_kind_of(const found_model *model, uint64_t version, char path[FOLDER_PATH_BYTES]);
/* Writes the path of a part of a version, VERSION/NAME/model.onnx or NAME/model.onnx (or .gguf); name: "draft" or
 * "vision". false: there is none. */
bool folder_part(const found_model *model, uint64_t version, const char *name, char path[FOLDER_PATH_BYTES]);
/* A hash of inode, size and modification time of the configuration, the models, the adapters and the draft model of a
 * version, or of all (0); never 0. */
uint64_t folder_state(const found_model *model, uint64_t version);
/* Whether one of these files of any version was written to within the last second. */
bool folder_is_written(const found_model *model);
#endif
