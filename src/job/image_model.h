/* image_model.h - which model a job on images makes, of patches or of convolutions at first: what
 * jobs that train classifiers and encoders share. */
#ifndef QKV_SRC_JOB_IMAGE_MODEL_H
#define QKV_SRC_JOB_IMAGE_MODEL_H

#include "job/image_job.h"

/* What --type can be. */
enum { QKV__KIND_AUTO, QKV__KIND_CCT, QKV__KIND_VIT };
extern const char *const qkv__image_kinds[];

/* The fields of either type that --set can give, of a qkv_vit_config. */
extern const qkv_option_table qkv__image_model_table;

typedef struct {
    int kind;                  /* QKV__KIND_.. */
    bool encoder;              /* without a head */
    qkv_vit_config given;      /* what --set says */
    qkv_image_format format;   /* chosen */
    const qkv_model_type *type; /* of the model to be made */
    qkv_vit_config config;
} qkv__image_model;

/* The side that --set image_size gives becomes that of --size; QKV_E_ARGUMENT if both are given. */
qkv_status qkv__image_model_side(qkv__image_job *p, qkv__image_model *m);
/* Chooses format, type and configuration; old: the model of --init, or NULL. */
qkv_status qkv__image_model_choose(const qkv__image_job *p, qkv__image_model *m,
                                   const qkv_model *old);
/* Makes base->model so, with what old (or NULL) has, and tells it the format of images. */
qkv_status qkv__image_model_make(qkv__image_job *p, qkv__image_model *m, qkv_model *old);
/* The model that --init names, which must be one of images; NULL without --init. */
qkv_status qkv__image_model_init(qkv__image_job *p, qkv_model **old);

#endif
