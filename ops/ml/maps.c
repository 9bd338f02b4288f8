/* ml/maps.c - operators on maps; run by the host. */
#include "schema.h"

static const op_row ml_maps_rows[] = {
    { "CastMap", 1, OP_HOST,
      "X:T1 -> Y:T2; T1=map(int64,float)|map(int64,string), T2=int64|float|string; cast_to:s='TO_FLOAT', "
      "map_form:s='DENSE', max_map:i=1",
      NULL },
    { "DictVectorizer", 1, OP_HOST,
      "X:T1 -> Y:T2; "
      "T1=map(int64,double)|map(int64,float)|map(int64,string)|map(string,double)|map(string,float)|"
      "map(string,int64), T2=int64|float|double|string; int64_vocabulary:is, string_vocabulary:ss",
      NULL },
    { "ZipMap", 1, OP_HOST,
      "X:float -> Z:T; T=seq(map(int64,float))|seq(map(string,float)); classlabels_int64s:is, classlabels_strings:ss",
      NULL },
};

const op_table op_ml_maps = { "ai.onnx.ml", ml_maps_rows, OP_COUNT(ml_maps_rows) };
