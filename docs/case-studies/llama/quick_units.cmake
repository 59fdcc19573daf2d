# clang 21 needs up to a quarter of an hour for each of these units with -O3. No kernel of the study is in them.
set(UNITS ${CMAKE_CURRENT_SOURCE_DIR}/ggml/src/ggml-cuda/template-instances)
cmake_language(
  DEFER DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
  CALL set_source_files_properties ${UNITS}/mmq-instance-q2_k.cu ${UNITS}/mmq-instance-q6_k.cu
       TARGET_DIRECTORY ggml-hip PROPERTIES COMPILE_OPTIONS -O0)
