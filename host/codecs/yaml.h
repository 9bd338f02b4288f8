/* codecs/yaml.h - reads YAML files by libcyaml's schemas, where an error is one line, and as trees. */
#ifndef CODECS_YAML_H
#define CODECS_YAML_H
#include "config/tree.h"
#include <cyaml/cyaml.h>

/* *out_data is the file's data, to be freed by yaml_free(); NULL for an empty file. The schema is a mapping. A key that
 * resembles none of its keys is refused with `otherwise` at the end of the message: where the keys are listed. */
INLAY_NODISCARD inlay_status yaml_load(const char *path, const cyaml_schema_value_t *schema, const char *otherwise,
                                       void **out_data, inlay_diag *diag);
/* *out_root is the file as a tree in the arena; NULL for an empty file. The mistakes, whose path is that of the file,
 * get all errors. */
INLAY_NODISCARD inlay_status yaml_read(struct arena *arena, struct mistakes *mistakes, tree_node **out_root);
void yaml_free(const cyaml_schema_value_t *schema, void *data);
#endif
