// Environment variables of CI systems, and the repository and origin that the client derives from them.

const SHA = '%SHA%';

/** `repository` is `repo_info`, or its absence; `filters` are providers that select the repository. */
export const CI = [
  {
    name: 'GitHub',
    env: {
      GITHUB_RUN_NUMBER: '1', GITHUB_RUN_ID: '77', GITHUB_SERVER_URL: 'https://github.com', GITHUB_SHA: SHA,
      GITHUB_REPOSITORY: 'acme/hub', GITHUB_REPOSITORY_OWNER: 'acme', GITHUB_REPOSITORY_ID: '12',
    },
    repository: { name: 'acme/hub', id: '12', provider: 'github', url: 'https://github.com/acme/hub' },
    origin: 'https://github.com/acme/hub/actions/runs/77',
    filters: ['github'],
  },
  {
    name: 'GitLab',
    env: {
      GITLAB_CI: 'true', CI_COMMIT_SHA: SHA, CI_PROJECT_NAME: 'app', CI_PROJECT_NAMESPACE: 'grp/sub',
      CI_PROJECT_PATH: 'grp/sub/app', CI_PROJECT_ID: '34', CI_PROJECT_URL: 'https://gitlab.example.com/grp/sub/app',
      CI_PROJECT_DESCRIPTION: 'An app', CI_JOB_URL: 'https://gitlab.example.com/grp/sub/app/-/jobs/5',
    },
    repository: {
      name: 'grp/sub/app', id: '34', provider: 'gitlab', url: 'https://gitlab.example.com/grp/sub/app',
      description: 'An app', namespace_path: ['grp', 'sub'],
    },
    origin: 'https://gitlab.example.com/grp/sub/app/-/jobs/5',
    filters: ['gitlab'],
  },
  {
    name: 'Bitbucket',
    env: {
      BITBUCKET_BUILD_NUMBER: '9', BITBUCKET_COMMIT: SHA, BITBUCKET_REPO_SLUG: 'app', BITBUCKET_WORKSPACE: 'ws',
      BITBUCKET_REPO_FULL_NAME: 'ws/app', BITBUCKET_REPO_UUID: '{0f1e}', BITBUCKET_PROJECT_KEY: 'PRJ',
      BITBUCKET_GIT_HTTP_ORIGIN: 'https://bitbucket.org/ws/app',
    },
    repository: {
      name: 'ws/app', id: '{0f1e}', provider: 'bitbucket_cloud', url: 'https://bitbucket.org/ws/app',
      namespace_path: ['ws'], additional_info: { project_key: 'PRJ' },
    },
    origin: 'https://bitbucket.org/ws/app/addon/pipelines/home#!/results/9',
    filters: ['bitbucket', 'bitbucket_cloud'],
  },
  {
    name: 'Azure',
    env: {
      TF_BUILD: 'True', BUILD_SOURCEVERSION: SHA, BUILD_REPOSITORY_NAME: 'repo', BUILD_REPOSITORY_ID: 'guid-1',
      BUILD_REPOSITORY_PROVIDER: 'TfsGit', BUILD_REPOSITORY_URI: 'https://dev.azure.com/coll/proj/_git/repo',
      SYSTEM_COLLECTIONURI: 'https://dev.azure.com/coll/', SYSTEM_TEAMPROJECT: 'proj', BUILD_BUILDID: '8',
    },
    repository: {
      name: 'coll/proj/repo', id: 'guid-1', provider: 'azure_devops_services',
      url: 'https://dev.azure.com/coll/proj/_git/repo', namespace_path: ['coll', 'proj'],
    },
    origin: 'https://dev.azure.com/coll/proj/_build/results?buildId=8',
    filters: ['azure-devops', 'azure_devops_services'],
  },
  {
    name: 'an older agent of Azure',
    env: {
      TF_BUILD: 'True', BUILD_SOURCEVERSION: SHA, BUILD_REPOSITORY_NAME: 'old', BUILD_REPOSITORY_ID: 'guid-2',
      BUILD_REPOSITORY_PROVIDER: 'TfsGit', BUILD_REPOSITORY_URI: 'https://azure.example.com/proj/_git/old',
      SYSTEM_TEAMPROJECT: 'proj', BUILD_BUILDID: '8',
    },
    repository: { name: 'old', id: 'guid-2', provider: 'azure-devops', url: 'https://azure.example.com/proj/_git/old' },
    origin: 'proj/_build/results?buildId=8',
    filters: ['azure-devops'],
  },
  {
    name: 'CircleCI',
    env: {
      CIRCLECI: 'true', CIRCLE_SHA1: SHA, CIRCLE_PROJECT_REPONAME: 'circle', CIRCLE_BUILD_URL: 'https://circleci.com/b/1',
      CIRCLE_REPOSITORY_URL: 'git@github.com:acme/circle.git',
    },
    origin: 'https://circleci.com/b/1',
  },
  {
    name: 'Jenkins',
    env: {
      JENKINS_URL: 'https://jenkins.example.com/', GIT_COMMIT: SHA, GIT_URL: 'https://git.example.com/acme/j.git',
      BUILD_URL: 'https://jenkins.example.com/job/1/',
    },
    origin: 'https://jenkins.example.com/job/1/',
  },
];
