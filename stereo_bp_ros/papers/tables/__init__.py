"""The tables and figures of the five papers, measured again on the device that is there.

``published`` holds what the papers print; one module per paper says which settings on which
images repeat each table. Papers, by the keys that the modules and the command line use:

lcpc_2010:   Grauer-Gray & Cavazos, Optimizing and Auto-tuning Belief Propagation on the GPU
thesis_2019: Kotsifakou, A GPU Implementation of Tiled Belief Propagation on Markov Random Fields
ai_2009:     Xu, Chen, Klette, Liu & Vaudrey, Belief Propagation Implementation Using CUDA on an
             NVIDIA GTX 280
gpu_cpu:     Grauer-Gray, Optimizing Global Stereo Matching on NVIDIA GPUs and CPUs
sad:         Pudpai, Kim & Liu, Data Stream Optimization of Sum of Absolute Differences Algorithm
             on a Graphics Processing Unit
"""
