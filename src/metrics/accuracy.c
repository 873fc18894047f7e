/* accuracy.c - how often a classifier is right: accuracy and F1. */
#include "qkv/score.h"

double qkv_accuracy(const int32_t *predicted, const int32_t *labels, size_t N)
{
    size_t right = 0;
    for (size_t i = 0; i < N; i++)
        right += predicted[i] == labels[i];
    return N ? (double)right / (double)N : 0;
}

double qkv_f1(const int32_t *predicted, const int32_t *labels, size_t N, int32_t positive)
{
    size_t right = 0, named = 0; /* 2 TP + FP + FN = times predicted + times true */
    for (size_t i = 0; i < N; i++) {
        right += predicted[i] == positive && labels[i] == positive;
        named += (size_t)(predicted[i] == positive) + (size_t)(labels[i] == positive);
    }
    return named ? 2 * (double)right / (double)named : 0;
}

static bool occurs(const int32_t *classes, size_t N, int32_t which)
{
    for (size_t i = 0; i < N; i++)
        if (classes[i] == which)
            return true;
    return false;
}

double qkv_f1_macro(const int32_t *predicted, const int32_t *labels, size_t N, size_t classes)
{
    double sum = 0;
    size_t present = 0;
    for (size_t k = 0; k < classes; k++) {
        if (!occurs(labels, N, (int32_t)k) && !occurs(predicted, N, (int32_t)k))
            continue;
        sum += qkv_f1(predicted, labels, N, (int32_t)k);
        present++;
    }
    return present ? sum / (double)present : 0;
}
