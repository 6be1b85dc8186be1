/* The part of OpenBLAS's cblas.h that is called, and the product, which is only looked for. */
int openblas_get_num_threads(void);
char * openblas_get_config(void);
char * openblas_get_corename(void);
void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float * a, int lda, const float * b, int ldb, float beta, float * c, int ldc);
